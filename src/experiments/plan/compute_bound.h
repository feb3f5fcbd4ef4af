#pragma once
// The smallest batch for which a layout is bound by compute and not by communication.
//
// In a pass over B tokens (of all ranks), a device takes B c seconds for matrix products, g seconds
// to exchange parameters or gradients, and B t seconds to exchange tensor-parallel activations:
//   c = f / (X Y C)   f: FLOPs per token
//   g = V / (W M_X)   V: bytes that a device sends in the collectives of parameters or gradients
//   t = v / (W M_Y)   v: bytes per token that a device sends in tensor-parallel collectives
// X, Y: data-parallel and tensor-parallel ranks; C: FLOP/s of a device; W: bytes/s of a link;
// M_X, M_Y: mesh axes of the data-parallel and of the tensor-parallel collectives.
// Overlapped: all three run concurrently; compute-bound if B >= g / c and c > t. Serial: the two
// kinds of collectives run one after the other, concurrently with the products; B >= g / (c - t).
// Reference: Austin et al., How to Scale Your Model (2025), "Training".

#include "experiments/plan/plan_case.h"

namespace paceline {

struct ComputeBound {
  double flops_per_token = 0;         // f
  double exchanged_bytes = 0;         // V
  double tensor_bytes_per_token = 0;  // v
  double compute_s_per_token = 0;     // c
  double exchange_s = 0;              // g
  double tensor_s_per_token = 0;      // t
  // The smallest d_ff with c > t. For two-matrix blocks: n e / (4 p) x Y C / (W M_Y), with e bytes
  // per element.
  double tensor_least_d_ff = 0;
  double tensor_collectives = 0;  // n: tensor-parallel collectives per block
  double passes = 0;              // p: FLOPs over forward's; 1 in forward, 2 in backward

  [[nodiscard]] bool tensor_is_hidden() const { return compute_s_per_token > tensor_s_per_token; }
  // Smallest compute-bound batch in tokens; infinite if there is none.
  [[nodiscard]] double overlapped_tokens() const;
  [[nodiscard]] double serial_tokens() const;
};

// Whether a ring of n ranks is counted to send (n - 1) / n of the bytes, or all of them as in the
// course.
enum class RingFactor : std::uint8_t { left_out, counted };

// For the pass that overlaps the collectives: forward for fsdp, which gathers parameters; backward
// for other layouts, which exchange gradients.
[[nodiscard]] ComputeBound compute_bound(const PlanCase& plan, RingFactor ring);

}  // namespace paceline
