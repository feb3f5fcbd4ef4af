#pragma once
// The closed forms: FLOPs, bytes and memory of a step, on paper. R = B T rows per rank.

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

// Where parameters that lie in shards are gathered.
struct GatheredShape {
  double slots = 0;
  double slot = 0;      // elements of one
  double resident = 0;  // elements, in the masters' dtype, that are gathered for the whole step
};

struct StepShape {
  ModelConfig model;
  Precision precision;
  AttentionKind attention = AttentionKind::naive;
  std::int64_t batch = 4;  // per rank
  Mode mode = Mode::train_step;
  int recompute = 0;              // 0 none, n: every n blocks
  bool recompute_swiglu = false;  // its result alone, where recompute is 0
  double parameter_share = 1;     // of parameters, that the rank keeps
  GatheredShape gathered;         // where that is not all of them
  double optimizer_share = 1;     // of Adam's state, on the rank that keeps most
  double gradient_elements = -1;  // that are kept until the optimizer reads them; -1: all
  double gradient_window = 0;     // that have memory where they are written, if not there
  bool widens_gemms = false;      // the device multiplies half types as float32 copies (the CPU)
};

// Matrix-product FLOPs of one rank's step. Of the model: forward 2 R (L (4 D^2 + 3 D F) + D V) +
// 4 L B T^2 D (the whole T x T square, whichever attention computes it), backward twice that. Of
// the step: with recompute the blocks' forward once more; flash attention leaves out what is
// masked, half of the square, and multiplies 2.5 times as much in backward as in forward.
[[nodiscard]] double step_flops(const StepShape& shape);
// Of them those of attention's T x T products.
[[nodiscard]] double step_attention_flops(const StepShape& shape);
[[nodiscard]] double model_flops(const StepShape& shape);

// Bytes, of one rank.
struct MemoryForm {
  double parameters = 0;   // masters and the low-precision copy
  double gathered = 0;     // of parameters that lie in shards
  double gradients = 0;    // of parameters; 0 in modes without backward
  double optimizer = 0;    // Adam's m and v; 0 but in train-step
  double activations = 0;  // what forward keeps for backward (inference: the most alive at once)
  double transient = 0;    // what the peak holds beyond that
  [[nodiscard]] double peak() const {
    return parameters + gathered + gradients + optimizer + activations + transient;
  }
};
// Of eager execution: per block two residuals, two norms' statistics and outputs, q k v, the T x T
// probabilities (flash: logsumexp), the heads, w1 | w3 and their product; then the head's residual,
// norm and logits.
[[nodiscard]] MemoryForm memory_form(const StepShape& shape);

// How a line of closed form is measured, in bytes in use when forward has ended.
enum class MemoryMeasure : std::uint8_t {
  kind,              // all of a kind, in a steady step
  scope,             // those of a kind whose scope begins so, in the first step
  added_by_forward,  // the most that forward adds to what is there
  peak,              // the most of all kinds in a steady step
};

// One formula, with its numbers in it.
struct MemoryLine {
  std::string what;
  std::string formula;
  double bytes = 0;
  MemoryMeasure measure = MemoryMeasure::kind;
  MemoryKind kind = MemoryKind::activation;
  std::string scope;  // "forward/head"
};
// The parts of memory_form(); of a block and of the head where they are kept.
[[nodiscard]] std::vector<MemoryLine> memory_lines(const StepShape& shape);

// The least bytes that a step moves to and from memory: every weight read in forward and twice in
// backward, gradients written and read, activations written and read, Adam's state read and
// written.
[[nodiscard]] double step_bytes(const StepShape& shape);

}  // namespace paceline
