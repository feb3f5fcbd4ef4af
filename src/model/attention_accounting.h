#pragma once
// Attention on paper: FLOPs, bytes moved and memory.

#include <string>
#include <vector>

#include "core/ops.h"

namespace paceline {

// As the field counts it (Dao, arXiv:2307.08691, section 4.1): forward 4 B H T^2 d, half of it when
// causal; backward 2.5 times that (5 products instead of 2).
inline constexpr double attention_backward_factor = 2.5;
[[nodiscard]] double attention_flops(const AttentionShape& shape);

// Bytes kept besides qkv and the result: the probabilities, or flash's logsumexp.
[[nodiscard]] double attention_kept_bytes(AttentionKind kind, const Precision& precision,
                                          const AttentionShape& shape);

// Bytes that any attention reads and writes at least: q, k, v in, o and logsumexp out; in backward
// all of these and the gradient of o in, those of q, k, v out.
[[nodiscard]] double attention_forward_bytes(const Precision& precision,
                                             const AttentionShape& shape);
[[nodiscard]] double attention_backward_bytes(const Precision& precision,
                                              const AttentionShape& shape);

struct MemoryTerm {
  const char* formula;
  double bytes;
};

// Bytes of the composites, with qkv and the gradient of the result in memory.
struct AttentionMemory {
  double saved = 0;            // for backward: qkv, what is kept besides, and flash's result
  double before_backward = 0;  // with the result and its gradient
  std::vector<MemoryTerm> peak_terms;  // in backward, without flash's workspace

  [[nodiscard]] double peak() const;
  // "8 B H T d e + 2 B H T^2 e = 8.39 MB + 67.1 MB"; e: bytes of an element.
  [[nodiscard]] std::string peak_formula() const;
};
// widens_gemms: half types are multiplied as float32 copies (the CPU).
[[nodiscard]] AttentionMemory attention_memory(AttentionKind kind, const Precision& precision,
                                               const AttentionShape& shape, bool widens_gemms);

}  // namespace paceline
