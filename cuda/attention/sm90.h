#pragma once
// Flash attention's kernels for Hopper (compiled for sm_90a alone): bfloat16 and float16, head
// dimensions 16, 32, 64, 80 and 128.

#include "cuda/attention/flash.h"

namespace paceline {

void sm90_forward(const FlashForward& call);

// Heads, of all sequences, whose keys and values stay in the L2 cache together.
[[nodiscard]] int heads_per_section(const FlashShape& shape);
[[nodiscard]] int multiprocessors();  // of the current device

}  // namespace paceline
