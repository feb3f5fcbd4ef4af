#pragma once
// The time of a step: computation, exposed communication and contention.
//
//   products    FLOPs / peak; attention's at a separate rate (--rates)
//   traffic     bytes read and written / memory bandwidth: elementwise work and the optimizer
//   fixed       blocks x the size-independent time of a block (--rates)
//   tensor      tensor-parallel collectives, never overlapped: the next product waits for them
//   exchange    data-parallel collectives: calls x latency + bytes sent / bandwidth,
//               per operation if it was measured (--rates)
//   exposed     the part of the exchange that is not overlapped. naive and flat: all of it. Others:
//               the excess over the passes that overlap it, at least the last collective; plus
//               broadcasts of parameters after the update
//   contention  slowdown by overlapped collectives, as a fraction of their time (--rates)
//
// The latency of a collective of n ranks is ceil(log2 n) times that of two ranks (trees).

#include "experiments/plan/plan_case.h"

namespace paceline {

struct StepTime {
  double products_s = 0;
  double traffic_s = 0;
  double fixed_s = 0;
  double tensor_s = 0;
  double exchange_s = 0;
  double exchange_calls = 0;
  double exchange_bytes = 0;  // sent by a rank
  double exposed_s = 0;
  double contention_s = 0;

  [[nodiscard]] double compute_s() const { return products_s + traffic_s + fixed_s + tensor_s; }
  [[nodiscard]] double step_s() const { return compute_s() + exposed_s + contention_s; }
};

[[nodiscard]] StepTime step_time(const PlanCase& plan);

// The latency of a collective of `ranks` ranks.
[[nodiscard]] double collective_latency_s(const PlanCase& plan, int ranks);

// The same plan with links and network cards of twice the bandwidth.
[[nodiscard]] PlanCase with_twice_the_bandwidth(PlanCase plan);

}  // namespace paceline
