#pragma once
// Attention on paper: FLOPs and what it keeps for backward.

#include "core/ops.h"

namespace paceline {

// As the field counts it (Dao, arXiv:2307.08691, section 4.1): forward 4 B H T^2 d, half of it when
// causal; backward 2.5 times that (5 products instead of 2).
inline constexpr double attention_backward_factor = 2.5;
[[nodiscard]] double attention_flops(const AttentionShape& shape);

// Bytes kept besides qkv and the result: the probabilities, or flash's logsumexp.
[[nodiscard]] double attention_kept_bytes(AttentionKind kind, const Precision& precision,
                                          const AttentionShape& shape);

}  // namespace paceline
