#include "experiments/training/training_step.h"

#include <fmt/format.h>

#include <cmath>

#include "model/weights_file.h"

namespace paceline {

TrainingStep::TrainingStep(Device& device, const TrainingCase& c, int ranks,
                           const StoreLayout& layout, const MakeStrategy& make_strategy)
    : device_(device),
      case_(c),
      precision_(c.ops_config().precision),
      ops_(device.make_ops(c.ops_config())),
      model_(device, c.model(), precision_, layout),
      state_(StepState::create(device, c.batch_size, c.context, precision_.loss,
                               precision_.loss_scaling, c.learning_rate)),
      strategy_(make_strategy(model_.store(), *ops_)),
      optimizer_(std::make_unique<AdamW>(model_.store(), c.adamw(), strategy_->shard())) {
  state_.ranks = ranks;
  add_phases();
}

void TrainingStep::add_phases() {
  phases_.push_back({"forward", "forward", [this] {
                       const Scope scope(device_.scopes(), "forward");
                       strategy_->begin_step();
                       model_.forward(*ops_, state_, *strategy_,
                                      {.keep = case_.mode != Mode::inference,
                                       .recompute = case_.recompute.blocks,
                                       .logits = logits_});
                     }});
  if (case_.mode < Mode::forward_backward) return;
  phases_.push_back({"backward", "backward", [this] {
                       const Scope scope(device_.scopes(), "backward");
                       model_.store().allocate_gradients();
                       model_.backward(*ops_, state_, *strategy_);
                     }});
  if (strategy_->communicates()) {
    phases_.push_back({"communication_exposed", "backward", [this] {
                         const Scope scope(device_.scopes(), "backward");
                         strategy_->finish_backward();
                       }});
  }
  if (case_.mode < Mode::train_step) return;
  phases_.push_back({"optimizer", "optimizer", [this] {
                       const Scope scope(device_.scopes(), "optimizer");
                       optimizer_->step(*ops_, state_);
                     }});
  phases_.push_back({"", "optimizer", [this] { strategy_->updated(); }});
}

void TrainingStep::launch() const {
  for (const StepPhase& phase : phases_) phase.launch();
}

std::vector<StoreArray> TrainingStep::arrays() {
  std::vector<StoreArray> arrays = model_.store().flat_arrays();
  const std::vector<StoreArray> state = optimizer_->flat_state();
  arrays.insert(arrays.end(), state.begin(), state.end());
  return arrays;
}

void TrainingStep::load(const Batch& batch) const {
  device_.to_device(state_.tokens, batch.tokens.data());
  device_.to_device(state_.targets, batch.targets.data());
}

void TrainingStep::reset() {
  if (case_.weights == "random") {
    initialise_weights(*ops_, model_.store(), static_cast<std::uint64_t>(case_.seed));
  } else {
    load_weights(device_, *ops_, model_.store(), case_.weights);
  }
  optimizer_->reset(device_);
  state_.reset(device_, precision_.loss_scaling, case_.learning_rate);
}

std::string TrainingStep::divergence() {
  if (const double value = loss(); !std::isfinite(value))
    return fmt::format("the loss is {}", value);
  if (case_.mode < Mode::forward_backward || precision_.loss_scaling) return {};
  for (const StoreRange& range : strategy_->shard().ranges) {
    ops_->check_finite(state_, range.of(model_.store().gradients()));
  }
  const bool finite = state_.get(device_, StepScalar::found_inf) == 0;
  state_.set(device_, StepScalar::found_inf, 0);
  return finite ? "" : fmt::format("a gradient is not finite (the loss is {:.6g})", loss());
}

double TrainingStep::loss() {
  double value = 0;
  if (state_.loss.dtype() == Dtype::f64) {
    device_.to_host(&value, state_.loss);
  } else {
    float narrow = 0;
    device_.to_host(&narrow, state_.loss);
    value = narrow;
  }
  return value;
}

}  // namespace paceline
