#pragma once
// Closed forms of FLOPs, bytes moved and memory, of a step and of attention alone. B, T, D, F, L,
// H, V as in ModelConfig; R = B T rows per rank.

#include <string>
#include <vector>

#include "core/memory_ledger.h"
#include "core/ops.h"
#include "model/model_config.h"

namespace paceline {

enum class Mode : std::uint8_t { inference, forward, forward_backward, train_step };
constexpr auto names_of(Mode) {
  return names("inference", "forward", "forward-backward", "train-step");
}

// Buffers into which sharded parameters are all-gathered.
struct GatheredShape {
  double slots = 0;     // buffers; 0: parameters are not sharded
  double slot = 0;      // elements of one buffer, in the compute dtype
  double resident = 0;  // elements that stay gathered for the whole step, in the masters' dtype
};

struct StepShape {
  ModelConfig model;
  Precision precision;
  AttentionKind attention = AttentionKind::naive;
  std::int64_t batch = 4;  // per rank
  Mode mode = Mode::train_step;
  int recompute = 0;                 // 0 none, n: every n blocks
  bool recompute_swiglu = false;     // recompute SwiGLU's result only; needs recompute = 0
  double parameter_share = 1;        // fraction of the parameters that a rank keeps
  GatheredShape gathered;            // used if parameter_share < 1
  double optimizer_share = 1;        // fraction of Adam's state, on the rank with the largest shard
  double gradient_elements = -1;     // elements kept until the optimizer reads them; -1: all
  double gradient_window = 0;        // elements of the window that backward writes; 0: no window
  bool upcasts_gemm_inputs = false;  // GEMMs convert half types to float32 copies (the CPU)
};

// Matrix-product FLOPs, by the shape of the product's weights.
struct ProductFlops {
  double projections = 0;   // D x D, in attention
  double feed_forward = 0;  // D x F
  double head = 0;          // D x V
  double attention = 0;     // T x T products, without weights
  [[nodiscard]] double total() const { return projections + feed_forward + head + attention; }
};

// Matrix-product FLOPs of one rank's step.
// model_flops: what the mathematics needs, for MFU. Forward 2 R (L (4 D^2 + 3 D F) + D V) +
// 2 L B T^2 D: of the T x T matrix the half that the causal mask leaves, for every attention kind.
// Backward twice that.
// step_flops: what the step executes, for predicted times. Naive and fused attention multiply the
// whole T x T matrix; flash attention skips the masked half, and its backward has 2.5 times its
// forward's FLOPs. Recomputation adds one forward of the blocks.
[[nodiscard]] ProductFlops model_flops(const StepShape& shape);
[[nodiscard]] ProductFlops step_flops(const StepShape& shape);

// Bytes of one rank.
struct MemoryForm {
  double parameters = 0;   // masters and the low-precision copy
  double gathered = 0;     // buffers of all-gathered parameters
  double gradients = 0;    // 0 in modes without backward
  double optimizer = 0;    // Adam's m and v; 0 in every mode but train-step
  double activations = 0;  // kept by forward for backward (inference: the most alive at once)
  double transient = 0;    // the peak minus all of the above
  [[nodiscard]] double peak() const {
    return parameters + gathered + gradients + optimizer + activations + transient;
  }
};
// For eager execution; a weight's update that is fused into the product of its gradient keeps that
// product's input longer. Activations of a block: two residuals, statistics and outputs of two
// norms, q k v, the T x T probabilities (flash: logsumexp), attention's output, the outputs of w1 |
// w3 and their product. Of the head: residual, norm and logits.
[[nodiscard]] MemoryForm memory_form(const StepShape& shape);

// The measurement to compare a formula with: bytes in use at the end of forward, unless noted.
enum class MemoryMeasure : std::uint8_t {
  kind,              // all blocks of a kind, in a steady step
  scope,             // blocks of a kind whose scope has the given prefix, in the first step
  added_by_forward,  // the peak of forward minus the bytes in use before it
  peak,              // the peak over all kinds in a steady step
};

// One formula with its numbers filled in.
struct MemoryLine {
  std::string what;
  std::string formula;
  double bytes = 0;
  MemoryMeasure measure = MemoryMeasure::kind;
  MemoryKind kind = MemoryKind::activation;
  std::string scope;  // prefix, for MemoryMeasure::scope: "forward/head"
};
// The parts of memory_form(). Activations are per block and for the head if forward keeps them.
[[nodiscard]] std::vector<MemoryLine> memory_lines(const StepShape& shape);

// A lower bound on the bytes that a step moves to and from memory: every weight read once in
// forward and twice in backward, gradients written and read (unless updates are fused), activations
// written and read, Adam's state read and written.
[[nodiscard]] double step_bytes(const StepShape& shape);

// ---- of one attention call ----------------------------------------------------------------

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
