#pragma once
// The tokens of a step, on the host: random or from a file.

#include <cstdint>
#include <filesystem>
#include <vector>

namespace paceline {

struct Batch {
  std::vector<std::int32_t> tokens;   // [B, T]
  std::vector<std::int32_t> targets;  // [B, T], no_target where there is none
};

struct BatchShape {
  std::int64_t first_row = 0;  // rank r takes rows [r B, (r + 1) B) of the global batch
  std::int64_t rows = 0;       // B
  std::int64_t context = 0;    // T
  std::int64_t vocab = 0;
};

// The same rows for the same seed, whatever the split over ranks; targets are the next tokens.
[[nodiscard]] Batch random_batch(const BatchShape& shape, std::uint64_t seed);

// An HDF5 file with `tokens` and optionally `targets`, integers [rows, columns]. Only the first T
// columns are read. Without targets the next token of the row is the target, and the row's last
// has none. Any other file: flat uint16, row i starting at token i T, and the target is the next
// token. Throws UsageError (--tokens) when the file cannot be read, is too short, is neither HDF5
// nor a multiple of two bytes, or holds an id outside [0, vocab).
[[nodiscard]] Batch load_batch(const std::filesystem::path& file, const BatchShape& shape);

}  // namespace paceline
