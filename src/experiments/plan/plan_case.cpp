#include "experiments/plan/plan_case.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"

namespace paceline {

namespace {

// In the order in which backward finishes them.
std::vector<ParameterEntry> two_matrix_entries(const TrainingCase& c) {
  std::vector<ParameterEntry> entries;
  for (std::int64_t i = c.layers - 1; i >= 0; --i) {
    const auto add = [&](const char* name, const Shape& shape) {
      entries.push_back({.views = {{fmt::format("layers.{}.{}", i, name), shape}},
                         .shape = shape,
                         .unit = fmt::format("block {}", i)});
    };
    add("w2", {c.d_model, c.d_ff});
    add("w1", {c.d_ff, c.d_model});
  }
  return entries;
}

void check_divides(const char* option, std::int64_t value, int tensor) {
  if (value % tensor == 0) return;
  throw UsageError(fmt::format("--tp: {} ranks do not divide {} {}; use a divisor of it", tensor,
                               option, value));
}

}  // namespace

double PlanCase::group_tokens() const {
  return static_cast<double>(step.batch_size * step.context);
}

double PlanCase::parameters() const {
  if (block_kind == BlockKind::transformer) return static_cast<double>(step.model().parameters());
  return 2.0 * static_cast<double>(step.layers * step.d_model * step.d_ff);
}

double PlanCase::forward_flops_per_token() const {
  if (block_kind == BlockKind::two_matrix) return 2 * parameters();
  StepShape shape = step.step_shape();
  shape.mode = Mode::forward;
  return paceline::step_flops(shape).total() / group_tokens();
}

double PlanCase::step_flops() const {
  if (block_kind == BlockKind::transformer)
    return paceline::step_flops(step.step_shape()).total() * data_ranks();
  const double passes = step.recompute.blocks > 0 ? 4 : 3;
  return passes * forward_flops_per_token() * tokens();
}

Work PlanCase::work() const {
  if (block_kind == BlockKind::two_matrix) {
    return {.feed_forward_flops = step_flops() / static_cast<double>(ranks())};
  }
  const StepShape shape = step.step_shape();
  const ProductFlops flops = paceline::step_flops(shape);
  const double activations = 2 * memory_form(shape).activations;  // written and read
  return {.projection_flops = flops.projections / tensor,
          .feed_forward_flops = flops.feed_forward / tensor,
          .head_flops = flops.head / tensor,
          .attention_flops = flops.attention / tensor,
          .parameter_bytes = (step_bytes(shape) - activations) / tensor,
          .activation_bytes = activations / tensor,
          .blocks = static_cast<double>(step.layers),
          .heads = static_cast<double>(step.batch_size * step.heads * step.layers) / tensor};
}

double PlanCase::weight_flops_per_s() const {
  const Work all = work();
  const double rate = rates.feed_forward_flops_per_s;
  if (rates.projection_flops_per_s == rate && rates.head_flops_per_s == rate) return rate;
  return all.weight_flops() /
         (all.projection_flops / rates.projection_flops_per_s + all.feed_forward_flops / rate +
          all.head_flops / rates.head_flops_per_s);
}

StrategyShape PlanCase::strategy_shape() const {
  if (block_kind == BlockKind::transformer) return step.strategy_shape();
  return {.config = step.strategy_config(),
          .entries = two_matrix_entries(step),
          .precision = step.ops_config().precision,
          .ranks = data_ranks()};
}

MeasuredOp PlanCase::measured(std::string_view op) const {
  const auto found = measured_ops.find(op);
  return found == measured_ops.end() ? MeasuredOp{.latency_s = latency_s} : found->second;
}

bool PlanCase::divides_over(std::int64_t tensor_ranks) const {
  return step.d_model % tensor_ranks == 0 && step.d_ff % tensor_ranks == 0 &&
         (block_kind == BlockKind::two_matrix || step.heads % tensor_ranks == 0);
}

double PlanCase::data_bandwidth_bytes_per_s() const {
  return bandwidth_bytes_per_s(hardware, ranks(), tensor) * axes.data;
}

double PlanCase::tensor_bandwidth_bytes_per_s() const {
  return bandwidth_bytes_per_s(hardware, tensor) * axes.tensor;
}

void check_plan(const PlanCase& plan) {
  const TrainingCase& c = plan.step;
  if (plan.block_kind == BlockKind::transformer) {
    check_model(c.model());
    check_divides("--heads", c.heads, plan.tensor);
  } else if (c.recompute.swiglu) {
    throw UsageError("--recompute: swiglu goes with --blocks transformer; use none or K");
  }
  check_divides("--d-model", c.d_model, plan.tensor);
  check_divides("--d-ff", c.d_ff, plan.tensor);
}

}  // namespace paceline
