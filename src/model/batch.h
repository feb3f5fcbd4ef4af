#pragma once
// Tokens and targets of a step, in host memory: random or from a file.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/enum_names.h"

namespace paceline {

struct Batch {
  std::vector<std::int32_t> tokens;   // [B, T]
  std::vector<std::int32_t> targets;  // [B, T], no_target at a position without a target
};

struct BatchShape {
  std::int64_t first_row = 0;  // rank r takes rows [r B, (r + 1) B) of the global batch
  std::int64_t rows = 0;       // B
  std::int64_t context = 0;    // T
  std::int64_t vocab = 0;
  std::int64_t all_rows = 0;  // that a file must hold: those of all ranks
};

// Targets are the next tokens. A row of the global batch depends on the seed and its index only,
// not on the number of ranks.
[[nodiscard]] Batch random_batch(const BatchShape& shape, std::uint64_t seed);

// The dtype of a flat file, which does not say it.
enum class TokenDtype : std::uint8_t { uint16, uint32 };
constexpr auto names_of(TokenDtype) { return names("uint16", "uint32"); }

// An integer type of a file.
struct IntegerType {
  std::int64_t bytes = 2;
  bool is_signed = false;

  [[nodiscard]] std::string name() const;  // "uint16"
};

// Throws UsageError (--token-dtype) if `dtype` is given and is not the file's own.
void require_dtype(const std::filesystem::path& file, const std::string& own,
                   const std::optional<TokenDtype>& dtype);

// "--tokens: FILE what"
[[noreturn]] void refuse_tokens(const std::filesystem::path& file, const std::string& what);

// A file of token ids without HDF5. Formats:
//   NumPy's .npy, versions 1 to 3: little-endian integers [tokens] or [rows, columns], in C order.
//   llm.c's .bin: 256 int32 (20240520, 1, count: then uint16; 20240801, 7, count: then uint32).
//   Flat: `dtype`, or uint16 if it is not given.
class TokenFile {
 public:
  // Throws UsageError for another format, for a size that contradicts the header, and for a dtype
  // that contradicts the file's or holds no id of `vocab` tokens.
  TokenFile(std::filesystem::path file, const std::optional<TokenDtype>& dtype, std::int64_t vocab);

  // Absent: the file holds one sequence.
  [[nodiscard]] std::optional<std::int64_t> rows() const { return rows_; }
  // Of a row, or tokens in the sequence.
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  [[nodiscard]] const IntegerType& type() const { return type_; }
  // The ids from index `first` on.
  [[nodiscard]] std::vector<std::int64_t> read(std::int64_t first, std::int64_t count);

 private:
  // False: it has another format.
  [[nodiscard]] bool read_npy(std::string_view head);
  [[nodiscard]] bool read_llmc(std::string_view head);
  void read_flat(std::string_view head, const std::optional<TokenDtype>& dtype, std::int64_t vocab);
  void require_size() const;

  std::filesystem::path file_;
  std::ifstream in_;
  std::int64_t bytes_;       // of the file
  std::int64_t offset_ = 0;  // of the first id
  IntegerType type_;
  std::optional<std::int64_t> rows_;
  std::int64_t columns_ = 0;
};

// HDF5 files hold `tokens` and optionally `targets`, integers [rows, columns], of which the first T
// columns are used; TokenFile describes the others. Only the rows that are needed are read. Without
// `targets`, the target is the next token of the row; the last token of a row has none. In a file
// of one sequence row i starts at token i T. Throws UsageError (--tokens, --token-dtype) if the
// file cannot be read, is too short, or has an id outside [0, vocab) in these rows.
[[nodiscard]] Batch load_batch(const std::filesystem::path& file, const BatchShape& shape,
                               const std::optional<TokenDtype>& dtype = {});

}  // namespace paceline
