#pragma once
// The time of a step, as the sum of what a device does and what it waits for.
//
//   products    FLOPs / peak; attention's at a rate of their own (--from)
//   traffic     bytes read and written / memory bandwidth: elementwise work and the optimizer
//   fixed       blocks x the time that one takes at any size (--from)
//   tensor      tensor-parallel collectives, which the next product waits for
//   exchange    data-parallel collectives: calls x latency + bytes sent / bandwidth
//               of each operation, where that was measured (--from)
//   exposed     the part of the exchange that nothing hides. naive and flat: all of it. Others:
//               what is longer than the passes beside it, at least the last collective, and what
//               owners broadcast after their updates
//   contention  what hidden collectives cost the work beside them, of their own time (--from)
//
// A collective of n ranks takes ceil(log2 n) times the latency of two: trees.

#include <vector>

#include "experiments/plan/plan_case.h"

namespace paceline {

struct StepTime {
  double products_s = 0;
  double traffic_s = 0;
  double fixed_s = 0;
  double tensor_s = 0;
  double exchange_s = 0;
  double exchange_calls = 0;
  double exchange_bytes = 0;  // that a rank sends
  double exposed_s = 0;
  double contention_s = 0;

  [[nodiscard]] double compute_s() const { return products_s + traffic_s + fixed_s + tensor_s; }
  [[nodiscard]] double step_s() const { return compute_s() + exposed_s + contention_s; }
};

[[nodiscard]] StepTime step_time(const PlanCase& plan);

// Of a collective of `ranks` ranks.
[[nodiscard]] double collective_latency_s(const PlanCase& plan, int ranks);

// The same case on `ranks` ranks in all, tensor-parallel ones included.
[[nodiscard]] PlanCase on_ranks(PlanCase plan, int ranks);

// Weak scaling: the step on one data-parallel rank over that on `ranks` ranks in all.
[[nodiscard]] double weak_efficiency(const PlanCase& plan, int ranks);
// That many ranks in all, in powers of two, from one data-parallel rank to 16,384 ranks.
[[nodiscard]] std::vector<int> scaling_ranks(const PlanCase& plan);

}  // namespace paceline
