#include "model/optimizer.h"

namespace paceline {

void AdamW::step(Ops& ops, const StepState& state) {
  store_.allocate_optimizer_state();
  const AdamWRange range = store_.range();
  if (ops.precision().loss_scaling) ops.check_finite(state, range.gradients);
  ops.begin_optimizer_step(state, config_);
  ops.adamw(range, state, config_);
  ops.end_optimizer_step(state);
}

void Sgd::step(Ops& ops, const StepState& /*state*/) {
  const AdamWRange range = store_.range();
  ops.sgd(range.parameters, range.gradients, learning_rate_);
  store_.refresh_copy(ops);
}

}  // namespace paceline
