#pragma once
// Choices of algorithms for products, as JSON in a text and in a file. Makes no CUDA calls.

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "core/enum_names.h"

namespace paceline {

// How a product with two batch dimensions is computed: with one call per index of the shorter one,
// or with one call and arrays of addresses. Other products are strided.
enum class Batching : std::uint8_t { strided, pointers };
constexpr auto names_of(Batching) { return names("strided", "pointers"); }

struct ProductChoice {
  std::array<std::uint64_t, 8> algorithm{};  // cublasLtMatmulAlgo_t
  Batching batching = Batching::strided;
  int candidates = 0;        // algorithms that were timed; 0: none
  double first_seconds = 0;  // time of cuBLASLt's first proposal
  double seconds = 0;        // time of this algorithm

  [[nodiscard]] bool same_algorithm(const ProductChoice& other) const {
    return algorithm == other.algorithm && batching == other.batching;
  }
};

// Keyed by the product's text().
using ProductChoices = std::map<std::string, ProductChoice>;

// identity: names the GPU and the versions for which the choices hold.
[[nodiscard]] std::string text_of(const ProductChoices& choices, const std::string& identity);
// Empty if the text is damaged or of another identity.
[[nodiscard]] ProductChoices choices_of(const std::string& text, const std::string& identity);

// $PACELINE_CACHE, $XDG_CACHE_HOME/paceline or ~/.cache/paceline; empty if none of these variables
// is set.
[[nodiscard]] std::filesystem::path cache_folder();

// A file of choices. Processes that write it at the same time do not damage it, but one may undo
// the addition of another.
class ProductCache {
 public:
  // folder: created by the first add(); empty: nothing is stored.
  ProductCache(const std::filesystem::path& folder, std::string identity);

  // The choices in the file; empty if it is missing, damaged or of another identity.
  [[nodiscard]] ProductChoices read() const;
  // Adds the choices to those in the file. Does nothing if it cannot be written.
  void add(const ProductChoices& choices) const;

  [[nodiscard]] const std::string& identity() const { return identity_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::string identity_;
  std::filesystem::path path_;
};

}  // namespace paceline
