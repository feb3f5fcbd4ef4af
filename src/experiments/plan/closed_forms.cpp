#include "experiments/plan/closed_forms.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/communicator.h"
#include "core/error.h"

namespace paceline {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Memory of a data-parallel rank, before division by the tensor-parallel ranks.
MemoryForm two_matrix_memory(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  const StrategyShape shape = plan.strategy_shape();
  const Precision& p = shape.precision;
  const StrategyShape::Gradients gradients = shape.gradients(c.recycles_gradients());
  const std::vector<double> shares = shape.optimizer_shares();
  const GatheredShape gathered = shape.gathered();
  MemoryForm m;
  m.parameters = weight_bytes * plan.parameters() * shape.parameter_share();
  m.gathered = gathered.slots * gathered.slot * bytes_of(p.compute);
  m.gradients =
      gradients.kept * bytes_of(Dtype::f32) + gradients.window * bytes_of(p.communication);
  m.optimizer =
      optimizer_bytes * plan.parameters() * *std::max_element(shares.begin(), shares.end());
  m.activations = two_matrix_saved_bytes_per_token(c) * plan.group_tokens();
  return m;
}

double ring_part(int ranks, RingFactor ring) {
  if (ranks == 1) return 0;
  return ring == RingFactor::counted ? ring_share(ranks) : 1;
}

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
  const Strategy strategy = plan.step.strategy;
  if (is_sharded(strategy)) return time.compute_s();
  const bool overlaps = strategy == Strategy::overlap || strategy == Strategy::bucketed ||
                        strategy == Strategy::owner_broadcast;
  return overlaps ? backward * time.compute_s() : 0;
}

// Seconds of the collectives of activations between tensor-parallel ranks.
double tensor_seconds(const PlanCase& plan) {
  if (plan.tensor == 1) return 0;
  constexpr double collectives = forward_tensor_collectives + backward_tensor_collectives;
  const double calls =
      collectives * summed_sublayers(plan.block_kind) * static_cast<double>(plan.step.layers);
  const double bytes = plan.group_tokens() * static_cast<double>(plan.step.d_model) *
                       bytes_of(plan.step.precision.compute) * (plan.tensor - 1) / plan.tensor;
  return calls *
         (collective_latency_s(plan, plan.tensor) + bytes / plan.tensor_bandwidth_bytes_per_s());
}

}  // namespace

double two_matrix_saved_bytes_per_token(const TrainingCase& c) {
  const auto d = static_cast<double>(c.d_model);
  const auto block = d + static_cast<double>(c.d_ff);
  const auto layers = static_cast<double>(c.layers);
  const double element = bytes_of(c.precision.compute);
  if (c.recompute.blocks == 0) return element * layers * block;
  const double group = std::min<double>(c.recompute.blocks, layers);
  return element * (std::ceil(layers / group) * d + group * block);
}

MemoryForm device_memory(const PlanCase& plan) {
  MemoryForm m = plan.block_kind == BlockKind::two_matrix ? two_matrix_memory(plan)
                                                          : memory_form(plan.step.step_shape());
  for (const MemoryPart& part : memory_parts) m.*part.bytes /= plan.tensor;
  return m;
}

double devices_needed(double state, double device_bytes, double activations, double sharded) {
  const double room = device_bytes - (1 - sharded) * activations;
  if (room <= 0) return infinite;
  return std::ceil((state + sharded * activations) / room);
}

BestRecompute best_recompute(const PlanCase& plan) {
  BestRecompute best{.blocks = 0, .peak_bytes = infinite};
  const bool two_matrix = plan.block_kind == BlockKind::two_matrix;
  TrainingCase c = plan.step;
  MemoryForm form = two_matrix ? two_matrix_memory(plan) : MemoryForm{};
  StepShape shape = two_matrix ? StepShape{} : c.step_shape();
  shape.recompute_swiglu = false;
  for (int k = 1; k <= c.layers; ++k) {
    if (two_matrix) {
      c.recompute = {.blocks = k};
      form.activations = two_matrix_saved_bytes_per_token(c) * plan.group_tokens();
    } else {
      shape.recompute = k;
      form = memory_form(shape);
    }
    const double peak = form.peak() / plan.tensor;
    if (peak < best.peak_bytes) best = {.blocks = k, .peak_bytes = peak};
  }
  return best;
}

ComputeBound compute_bound(const PlanCase& plan, RingFactor ring) {
  const Precision p = plan.step.ops_config().precision;
  const double compute_bytes = bytes_of(p.compute);
  const double gradient_bytes = bytes_of(p.communication);
  const bool gathers = plan.step.strategy == Strategy::fsdp;
  const double X = plan.data_ranks();
  const double Y = plan.tensor;
  const double passes = gathers ? 1 : 2;  // backward has twice the FLOPs of forward
  // An all_reduce is a reduce_scatter and an all_gather.
  const double reductions = is_sharded(plan.step.strategy) ? 1 : 2;
  ComputeBound b;
  b.passes = passes;
  b.tensor_collectives = summed_sublayers(plan.block_kind) *
                         (gathers ? forward_tensor_collectives : backward_tensor_collectives);
  b.flops_per_token = passes * plan.forward_flops_per_token();
  b.exchanged_bytes = plan.parameters() / Y * ring_part(plan.data_ranks(), ring) *
                      (gathers ? compute_bytes : reductions * gradient_bytes);
  b.tensor_bytes_per_token = b.tensor_collectives * static_cast<double>(plan.step.layers) *
                             static_cast<double>(plan.step.d_model) * compute_bytes / X *
                             ring_part(plan.tensor, ring);
  b.compute_s_per_token = b.flops_per_token / (X * Y * plan.weight_flops_per_s());
  b.exchange_s = b.exchanged_bytes / plan.data_bandwidth_bytes_per_s();
  b.tensor_s_per_token = b.tensor_bytes_per_token / plan.tensor_bandwidth_bytes_per_s();
  b.tensor_least_d_ff =
      static_cast<double>(plan.step.d_ff) * b.tensor_s_per_token / b.compute_s_per_token;
  return b;
}

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

}  // namespace paceline
