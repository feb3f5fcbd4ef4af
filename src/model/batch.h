#pragma once
// The tokens of a step, on the host: random or from a file.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace paceline {

struct Batch {
  std::vector<std::int32_t> tokens;   // [B, T]
  std::vector<std::int32_t> targets;  // [B, T]
};

struct BatchShape {
  std::int64_t first_row = 0;  // rank r takes rows [r B, (r + 1) B) of the global batch
  std::int64_t rows = 0;       // B
  std::int64_t context = 0;    // T
  std::int64_t vocab = 0;
};

// The same rows for the same seed, whatever the split over ranks; targets are the next tokens.
[[nodiscard]] Batch random_batch(const BatchShape& shape, std::uint64_t seed);

// An HDF5 file with `tokens` and optionally `targets`, integers [rows, columns]: with targets the
// first T columns of both; without, T + 1 columns of tokens (the next token is the target). Any
// other file: flat uint16, row i starting at token i T. Throws UsageError (--tokens) when the file
// cannot be read, is too short, or holds an id outside [0, vocab).
[[nodiscard]] Batch load_batch(const std::filesystem::path& file, const BatchShape& shape);

}  // namespace paceline
