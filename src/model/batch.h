#pragma once
// Tokens and targets of a step, in host memory: random or from a file.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "model/token_file.h"

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

// HDF5 files hold `tokens` and optionally `targets`, integers [rows, columns], of which the first T
// columns are used; TokenFile describes the others. Only the rows that are needed are read. Without
// `targets`, the target is the next token of the row; the last token of a row has none. In a file
// of one sequence row i starts at token i T. Throws UsageError (--tokens, --token-dtype) if the
// file cannot be read, is too short, or has an id outside [0, vocab) in these rows.
[[nodiscard]] Batch load_batch(const std::filesystem::path& file, const BatchShape& shape,
                               const std::optional<TokenDtype>& dtype = {});

}  // namespace paceline
