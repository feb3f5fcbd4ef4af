#pragma once
// Which algorithm computes a product, remembered as text and in a file. Nothing here calls CUDA.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "core/enum_names.h"

namespace paceline {

// How two batch dimensions are computed: one call per index of the shorter one, or one call with
// arrays of addresses. Other products are strided.
enum class Batching : std::uint8_t { strided, pointers };
constexpr auto names_of(Batching) { return names("strided", "pointers"); }

struct ProductChoice {
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t
  Batching batching = Batching::strided;
  int candidates = 0;        // that were timed; 0: none
  double first_seconds = 0;  // the first proposal took
  double seconds = 0;        // this one took

  [[nodiscard]] bool same_algorithm(const ProductChoice& other) const {
    return algorithm == other.algorithm && batching == other.batching;
  }
};

// By what the product is, one line without tabs.
using ProductChoices = std::map<std::string, ProductChoice>;

// identity: one line that names the GPU and the versions for which the choices hold.
[[nodiscard]] std::string text_of(const ProductChoices& choices, const std::string& identity);
// Nothing where the text is damaged or of another identity.
[[nodiscard]] std::optional<ProductChoices> choices_of(const std::string& text,
                                                       const std::string& identity);

// $PACELINE_CACHE, $XDG_CACHE_HOME/paceline or ~/.cache/paceline; empty where none of these
// variables is set.
[[nodiscard]] std::filesystem::path cache_folder();

// A file of choices. Processes that write it at once do not damage it, but may undo what another
// has just added.
class ProductCache {
 public:
  // folder: made when something is written; empty: nothing is remembered.
  ProductCache(const std::filesystem::path& folder, std::string identity);

  // What the file holds; nothing where it is not there, damaged or of another identity.
  [[nodiscard]] ProductChoices read() const;
  // Adds the choices to what the file holds. Does nothing where it cannot be written.
  void add(const ProductChoices& choices) const;

  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace paceline
