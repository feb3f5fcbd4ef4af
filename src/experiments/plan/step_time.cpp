#include "experiments/plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace paceline {

namespace {

// 0 for one rank.
double tree_depth(int ranks) { return std::ceil(std::log2(ranks)); }

// Recomputed groups of blocks use the store's units in another order; their gathers are counted as
// if every block were recomputed by itself.
std::vector<ExchangeForm> exchanges(const PlanCase& plan) {
  auto all = plan.strategy_shape().exchanges(std::min(plan.step.recompute.blocks, 1));
  if (!all) throw InternalError("the layout has no closed form of its communication");
  for (ExchangeForm& one : *all) one.sent_bytes /= plan.tensor;
  return *std::move(all);
}

double seconds_of(const ExchangeForm& one, const PlanCase& plan) {
  const MeasuredOp op = plan.measured(one.op);
  return one.calls * op.latency_s * tree_depth(plan.data_ranks()) +
         one.sent_bytes / (plan.data_bandwidth_bytes_per_s() * op.bandwidth_ratio);
}

// The computation that overlaps the exchange: nothing, backward or the whole step.
double overlapping_s(const PlanCase& plan, const StepTime& time) {
  constexpr double backward = 2.0 / 3;
  switch (plan.step.strategy) {
    case Strategy::none:
    case Strategy::naive:
    case Strategy::flat: return 0;
    case Strategy::overlap:
    case Strategy::bucketed:
    case Strategy::owner_broadcast: return backward * time.compute_s();
    case Strategy::zero1:
    case Strategy::zero2:
    case Strategy::fsdp: break;
  }
  return time.compute_s();
}

// Seconds of the collectives of activations between tensor-parallel ranks.
double tensor_seconds(const PlanCase& plan) {
  if (plan.tensor == 1) return 0;
  constexpr double collectives = forward_tensor_collectives + backward_tensor_collectives;
  const double calls =
      collectives * summed_sublayers(plan.block_kind) * static_cast<double>(plan.step.layers);
  const double bytes = plan.group_tokens() * static_cast<double>(plan.step.d_model) *
                       static_cast<double>(size_of(plan.step.precision.compute)) *
                       (plan.tensor - 1) / plan.tensor;
  return calls *
         (collective_latency_s(plan, plan.tensor) + bytes / plan.tensor_bandwidth_bytes_per_s());
}

}  // namespace

double collective_latency_s(const PlanCase& plan, int ranks) {
  return plan.latency_s * tree_depth(ranks);
}

StepTime step_time(const PlanCase& plan) {
  StepTime time;
  const Work work = plan.work();
  time.products_s = plan.correction * plan.rates.products_s(work);
  time.traffic_s = plan.correction * plan.rates.traffic_s(work);
  time.fixed_s = plan.correction * plan.rates.fixed_s(work);
  time.tensor_s = tensor_seconds(plan);
  double after_update = 0;
  for (const ExchangeForm& one : exchanges(plan)) {
    const double seconds = seconds_of(one, plan);
    time.exchange_s += seconds;
    time.exchange_calls += one.calls;
    time.exchange_bytes += one.sent_bytes;
    if (one.after_update) after_update += seconds;
  }
  if (time.exchange_calls == 0) return time;
  const double before_update = time.exchange_s - after_update;
  const double last = time.exchange_s / time.exchange_calls;
  const double excess = before_update - overlapping_s(plan, time);
  time.exposed_s = after_update + std::min(before_update, std::max(last, excess));
  time.contention_s = plan.contention * (time.exchange_s - time.exposed_s);
  return time;
}

PlanCase with_twice_the_bandwidth(PlanCase plan) {
  plan.hardware.link_gb_per_s *= 2;
  plan.hardware.network_gb_per_s *= 2;
  return plan;
}

}  // namespace paceline
