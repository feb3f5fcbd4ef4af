#pragma once
// From which batch on a layout waits for its products and not for its collectives.
//
// In a pass, of B tokens of all ranks, a device multiplies for B c seconds, exchanges parameters or
// gradients for g seconds, whatever B is, and tensor-parallel activations for B t seconds:
//   c = f / (X Y C)   f: FLOPs of a token
//   g = V / (W M_X)   V: bytes that a device's collectives pass around
//   t = v / (W M_Y)   v: bytes of a token
// Overlapped: all three run at once; B >= g / c, and c > t whatever B is. Serial: the two kinds of
// collectives run one after the other, beside the products; B >= g / (c - t).
// Reference: Austin et al., How to Scale Your Model (2025), "Training".

#include "experiments/plan/plan_case.h"

namespace paceline {

struct ComputeBound {
  double flops_per_token = 0;         // f, of the pass
  double exchanged_bytes = 0;         // V
  double tensor_bytes_per_token = 0;  // v
  double compute_s_per_token = 0;     // c
  double exchange_s = 0;              // g
  double tensor_s_per_token = 0;      // t
  // c > t as a bound of d_ff, for two-matrix blocks: n e / (4 p) x Y C / (W M_Y), of n collectives
  // of e bytes an element and p times forward's products.
  double tensor_least_d_ff = 0;
  double tensor_collectives = 0;  // n, of a block
  double passes = 0;              // p: 1 in forward, 2 in backward

  [[nodiscard]] bool tensor_is_hidden() const { return compute_s_per_token > tensor_s_per_token; }
  // Infinite where products never take as long.
  [[nodiscard]] double overlapped_tokens() const;
  [[nodiscard]] double serial_tokens() const;
};

// rings: counts what a ring passes around, (n - 1) / n of it; else all of it, as the course does.
enum class RingFactor : std::uint8_t { left_out, counted };

// Of the pass that hides the collectives: fsdp's gathers behind forward, other layouts' exchange of
// gradients behind backward.
[[nodiscard]] ComputeBound compute_bound(const PlanCase& plan, RingFactor ring);

// How the published solutions count the same forward pass of two-matrix blocks.
// One product of a block instead of two, by one device instead of X Y.
[[nodiscard]] double undivided_half_block_tokens(const PlanCase& plan);
// A batch per group of Y devices; M_X as a count of matrices, not of links; rings counted.
[[nodiscard]] double one_axis_group_tokens(const PlanCase& plan);

}  // namespace paceline
