#pragma once
// Tokens and targets of a step, in host memory: random or from a file.

#include <cstdint>
#include <filesystem>
#include <vector>

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
};

// Targets are the next tokens. A row of the global batch depends on the seed and its index only,
// not on the number of ranks.
[[nodiscard]] Batch random_batch(const BatchShape& shape, std::uint64_t seed);

// Reads one of two formats.
// HDF5: `tokens` and optionally `targets`, integers [rows, columns]; the first T columns are used.
// Without `targets`, the target is the next token of the row; the last token of a row has none.
// Any other file: flat uint16; row i starts at token i T and the target is the next token.
// Throws UsageError (--tokens) if the file cannot be read, is too short, is neither HDF5 nor a
// multiple of two bytes, or contains an id outside [0, vocab).
[[nodiscard]] Batch load_batch(const std::filesystem::path& file, const BatchShape& shape);

}  // namespace paceline
