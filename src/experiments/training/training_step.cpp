#include "experiments/training/training_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/clock.h"
#include "core/device.h"

namespace paceline {

TrainingStep::TrainingStep(Device& device, const TrainingCase& c, int ranks,
                           const StoreLayout& layout, const MakeStrategy& make_strategy)
    : device_(device),
      case_(c),
      precision_(c.ops_config().precision),
      ops_(timed(library_seconds_, [&] { return device.make_ops(c.ops_config()); })),
      model_(device, c.model(), precision_, layout),
      state_(StepState::create(device, c.batch_size, c.context, precision_.loss,
                               precision_.loss_scaling, c.learning_rate)),
      strategy_(make_strategy(model_.store(), *ops_)) {
  state_.ranks = ranks;
  optimize_with(std::make_unique<AdamW>(model_.store(), c.adamw(), strategy_->shard()));
  add_phases();
}

void TrainingStep::optimize_with(std::unique_ptr<Optimizer> optimizer) {
  optimizer_ = std::move(optimizer);
  if (!updates_in_backward()) return;
  in_backward_.emplace(*ops_, *optimizer_, state_);
  strategy_->update_in_backward(*in_backward_);
}

void TrainingStep::add_phases() {
  // `part` is the scope of the phase's work and its phase in the ledger.
  const auto add = [this](std::string name, const char* part, std::function<void()> launch,
                          bool joins = false) {
    phases_.push_back({std::move(name), part,
                       [this, part, launch = std::move(launch)] {
                         const Scope scope(device_.scopes(), part);
                         launch();
                       },
                       joins});
  };
  add("forward", "forward", [this] {
    strategy_->begin_step();
    model_.forward(*ops_, state_, *strategy_,
                   {.keep = case_.mode != Mode::inference,
                    .recompute = case_.recompute.blocks,
                    .recompute_swiglu = case_.recompute.swiglu,
                    .logits = logits_});
  });
  if (case_.mode < Mode::forward_backward) return;
  add("backward", "backward", [this] {
    model_.store().allocate_gradients();
    if (in_backward_) in_backward_->begin();
    model_.backward(*ops_, state_, *strategy_);
  });
  if (strategy_->communicates()) {
    const auto finish = [this] { strategy_->finish_backward(); };
    add("communication_exposed", "backward", finish, true);
  }
  if (case_.mode < Mode::train_step) return;
  const auto optimize = [this] {
    in_backward_ ? in_backward_->finish(model_.store().entries()) : optimizer_->step(*ops_, state_);
  };
  add("optimizer", "optimizer", optimize, updates_in_backward());
  add("", "optimizer", [this] { strategy_->updated(); });
}

void TrainingStep::recycle_gradients() {
  const int room = window_room(case_.strategy);
  strategy_->communicates() ? model_.store().recycle_shards(room)
                            : model_.store().recycle_gradients(room);
  // Eager execution fuses nothing; offers would cost it host time in every step.
  if (!strategy_->communicates() && case_.execution == Execution::compiled) {
    in_backward_->allow_fusion();
  }
  recycled_ = true;
}

ParallelStrategy::Visit TrainingStep::adding_to(Snapshot* to) {
  return [this, to](const StoreRange& range, const Tensor& values) {
    if (to == nullptr) return;
    for_each_view(model_.store().entries(), range, values,
                  [&](const ParameterView& view, const Tensor& x) {
                    to->push_back({view.name, get_floats(device_, x), view.shape});
                  });
  };
}

void TrainingStep::rehearse_snapshots() {
  take_parameters(nullptr);
  if (case_.mode >= Mode::forward_backward && !recycled_) take_gradients(nullptr);
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

void TrainingStep::load(const Batch& batch) {
  device_.to_device(state_.tokens, batch.tokens.data());
  device_.to_device(state_.targets, batch.targets.data());
  state_.without_target = std::count(batch.targets.begin(), batch.targets.end(), no_target);
}

void TrainingStep::reset() {
  if (case_.weights == "random") {
    initialise_weights(*ops_, model_.store(), static_cast<std::uint64_t>(case_.seed));
  } else {
    loaded_ = load_weights(device_, *ops_, model_.store(), case_.weights);
  }
  optimizer_->reset(device_);
  state_.reset(device_, precision_.loss_scaling, case_.learning_rate);
}

std::string TrainingStep::divergence() {
  if (const double value = loss(); !std::isfinite(value))
    return fmt::format("the loss is {}", std::isnan(value) ? "nan" : "inf");
  if (case_.mode < Mode::forward_backward || precision_.loss_scaling) return {};
  const ParameterStore& store = model_.store();
  for (const StoreRange& range : strategy_->shard().ranges) {
    ops_->check_finite(state_, recycled_ ? store.parameters(range) : store.gradients(range));
  }
  const bool finite = state_.get(device_, StepScalar::found_inf) == 0;
  state_.set(device_, StepScalar::found_inf, 0);
  return finite ? ""
                : fmt::format("a {} is not finite (the loss is {:.6g})",
                              recycled_ ? "parameter" : "gradient", loss());
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
