#include "experiments/plan/device_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

namespace {

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
  if (room <= 0) return std::numeric_limits<double>::infinity();
  return std::ceil((state + sharded * activations) / room);
}

BestRecompute best_recompute(const PlanCase& plan) {
  BestRecompute best{.blocks = 0, .peak_bytes = std::numeric_limits<double>::infinity()};
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

}  // namespace paceline
