#include "experiments/plan/step_time.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace paceline {

namespace {

// 0 for one rank.
double tree_depth(int ranks) { return std::ceil(std::log2(ranks)); }

// Groups of blocks that are computed again use units in an order of their own: their gathers are
// counted as those of single blocks.
std::vector<ExchangeForm> exchanges(const PlanCase& plan) {
  auto all = plan.strategy_shape().exchanges(std::min(plan.step.recompute.blocks, 1));
  if (!all) throw InternalError("a layout without a closed form of what it sends");
  for (ExchangeForm& one : *all) one.sent_bytes /= plan.tensor;
  return *std::move(all);
}

double seconds_of(const ExchangeForm& one, const PlanCase& plan) {
  const MeasuredOp op = plan.measured(one.op);
  return one.calls * op.latency_s * tree_depth(plan.data_ranks()) +
         one.sent_bytes / (plan.data_bandwidth_bytes_per_s() * op.bandwidth_ratio);
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
  return plan.latency_s * tree_depth(ranks);
}

StepTime step_time(const PlanCase& plan) {
  StepTime time;
  const Work work = plan.work();
  time.products_s = plan.correction * plan.rates.products_s(work);
  time.traffic_s = plan.correction * plan.rates.traffic_s(work);
  time.fixed_s = plan.correction * plan.rates.fixed_s(work);
  time.tensor_s = tensor_seconds(plan);
  double after = 0;
  for (const ExchangeForm& one : exchanges(plan)) {
    const double seconds = seconds_of(one, plan);
    time.exchange_s += seconds;
    time.exchange_calls += one.calls;
    time.exchange_bytes += one.sent_bytes;
    if (one.after_update) after += seconds;
  }
  if (time.exchange_calls == 0) return time;
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
