#pragma once
// Closed forms of attention: FLOPs, bytes moved and memory.

#include <string>
#include <vector>

#include "core/ops.h"

namespace paceline {

// FLOPs of forward, counted as in Dao, arXiv:2307.08691, section 4.1: 4 B H T^2 d, half of it when
// causal. Backward is attention_backward_factor times that: 5 products instead of 2.
inline constexpr double attention_backward_factor = 2.5;
[[nodiscard]] double attention_flops(const AttentionShape& shape);
// FLOPs that forward and backward execute. Naive and fused attention multiply the masked half too,
// and keep the probabilities that flash attention computes again.
[[nodiscard]] double executed_attention_flops(AttentionKind kind, const AttentionShape& shape);

// Bytes kept for backward besides qkv and the result: the probabilities, or flash's logsumexp.
[[nodiscard]] double attention_kept_bytes(AttentionKind kind, const Precision& precision,
                                          const AttentionShape& shape);

// A lower bound on the bytes moved by any attention kind. Forward reads q, k, v and writes o and
// logsumexp; backward reads these five and the gradient of o, and writes the gradients of q, k, v.
[[nodiscard]] double attention_forward_bytes(const Precision& precision,
                                             const AttentionShape& shape);
[[nodiscard]] double attention_backward_bytes(const Precision& precision,
                                              const AttentionShape& shape);

struct MemoryTerm {
  const char* formula;
  double bytes;
};

// Bytes in use by one attention call, forward and backward, including qkv and the result's
// gradient.
struct AttentionMemory {
  double saved = 0;            // kept for backward: qkv; probabilities, or flash's o and logsumexp
  double before_backward = 0;  // qkv, the result, its gradient; probabilities or logsumexp
  std::vector<MemoryTerm> peak_terms;  // of the peak in backward, without flash's workspace

  [[nodiscard]] double peak() const;
  // "8 B H T d e + 2 B H T^2 e = 8.39 MB + 67.1 MB", where e is the bytes per element.
  [[nodiscard]] std::string peak_formula() const;
};
// upcasts_gemm_inputs: GEMMs convert half types to float32 copies (the CPU).
[[nodiscard]] AttentionMemory attention_memory(AttentionKind kind, const Precision& precision,
                                               const AttentionShape& shape,
                                               bool upcasts_gemm_inputs);

}  // namespace paceline
