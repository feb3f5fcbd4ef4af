#include "experiments/plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "parallel/gradient_ranges.h"

namespace paceline {

namespace {

// Groups of blocks that are computed again use units in an order of their own: their gathers are
// counted as those of single blocks.
double sent_bytes(const PlanCase& plan, const StrategyShape& shape) {
  const std::optional<double> bytes = shape.sent_bytes(std::min(plan.step.recompute.blocks, 1));
  if (!bytes) throw InternalError("a layout without a closed form of the bytes it sends");
  return *bytes;
}

double collective_calls(const PlanCase& plan, const StrategyShape& shape) {
  if (plan.data_ranks() == 1 || plan.step.strategy == Strategy::none) return 0;
  const auto ranges = static_cast<double>(gradient_ranges(shape.entries, plan.step.strategy,
                                                          shape.config.bucket_bytes,
                                                          size_of(shape.precision.communication))
                                              .size());
  switch (plan.step.strategy) {
    case Strategy::zero1:
    case Strategy::zero2: return 2 * ranges;
    case Strategy::fsdp: {
      const auto units = static_cast<double>(unit_ends(shape.entries).size());
      return (plan.step.reshard == Reshard::yes ? 3 : 2) * units;
    }
    case Strategy::owner_broadcast: return ranges + static_cast<double>(shape.entries.size());
    default: return ranges;
  }
}

// Seconds of a step that run beside the exchange.
double hiding_s(const PlanCase& plan, const StepTime& time) {
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

// Of the exchange, owners' broadcasts of what they have updated: the rest is an all_reduce.
double after_update_s(const PlanCase& plan, const StrategyShape& shape, const StepTime& time) {
  if (plan.step.strategy != Strategy::owner_broadcast) return 0;
  StrategyShape reduced = shape;
  reduced.config.strategy = Strategy::bucketed;
  const double bytes = time.exchange_bytes - sent_bytes(plan, reduced);
  return static_cast<double>(shape.entries.size()) * collective_latency_s(plan, plan.data_ranks()) +
         bytes / plan.data_bandwidth_bytes_per_s();
}

// Activations between tensor-parallel ranks.
double tensor_seconds(const PlanCase& plan) {
  if (plan.tensor == 1) return 0;
  constexpr double collectives = forward_tensor_collectives + backward_tensor_collectives;
  const double calls =
      collectives * summed_sublayers(plan.blocks) * static_cast<double>(plan.step.layers);
  const double bytes = plan.group_tokens() * static_cast<double>(plan.step.d_model) *
                       static_cast<double>(size_of(plan.step.precision.compute)) *
                       (plan.tensor - 1) / plan.tensor;
  return calls *
         (collective_latency_s(plan, plan.tensor) + bytes / plan.tensor_bandwidth_bytes_per_s());
}

}  // namespace

double collective_latency_s(const PlanCase& plan, int ranks) {
  return ranks > 1 ? plan.latency_s * std::ceil(std::log2(ranks)) : 0;
}

StepTime step_time(const PlanCase& plan) {
  const StrategyShape shape = plan.strategy_shape();
  StepTime time;
  const Work work = plan.work();
  time.products_s = plan.correction * plan.rates.products_s(work);
  time.traffic_s = plan.correction * plan.rates.traffic_s(work);
  time.tensor_s = tensor_seconds(plan);
  time.exchange_calls = collective_calls(plan, shape);
  time.exchange_bytes = sent_bytes(plan, shape) / plan.tensor;
  time.exchange_s = time.exchange_calls * collective_latency_s(plan, plan.data_ranks()) +
                    time.exchange_bytes / plan.data_bandwidth_bytes_per_s();
  if (time.exchange_calls == 0) return time;
  const double after = after_update_s(plan, shape, time);
  const double beside = time.exchange_s - after;
  const double last = time.exchange_s / time.exchange_calls;
  time.exposed_s = after + std::min(beside, std::max(last, beside - hiding_s(plan, time)));
  time.contention_s = plan.contention * (time.exchange_s - time.exposed_s);
  return time;
}

PlanCase on_ranks(PlanCase plan, int ranks) {
  plan.step.ranks = ranks / plan.tensor;
  return plan;
}

double weak_efficiency(const PlanCase& plan, int ranks) {
  return step_time(on_ranks(plan, plan.tensor)).step_s() /
         step_time(on_ranks(plan, ranks)).step_s();
}

std::vector<int> scaling_ranks(const PlanCase& plan) {
  constexpr int most = 16'384;
  std::vector<int> all;
  for (int ranks = plan.tensor; ranks <= most; ranks *= 2) all.push_back(ranks);
  return all;
}

}  // namespace paceline
