#include "experiments/plan/compute_bound.h"

#include <limits>

#include "core/communicator.h"

namespace paceline {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

double ring_part(int ranks, RingFactor ring) {
  if (ranks == 1) return 0;
  return ring == RingFactor::counted ? ring_share(ranks) : 1;
}

}  // namespace

double ComputeBound::overlapped_tokens() const {
  return tensor_is_hidden() ? exchange_s / compute_s_per_token : infinite;
}

double ComputeBound::serial_tokens() const {
  return tensor_is_hidden() ? exchange_s / (compute_s_per_token - tensor_s_per_token) : infinite;
}

ComputeBound compute_bound(const PlanCase& plan, RingFactor ring) {
  const Precision p = plan.step.ops_config().precision;
  const auto compute_bytes = static_cast<double>(size_of(p.compute));
  const auto gradient_bytes = static_cast<double>(size_of(p.communication));
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

}  // namespace paceline
