#include "experiments/training/training_step.h"

#include <fmt/format.h>

#include <cmath>

#include "core/clock.h"
#include "harness/rehearsal.h"
#include "model/weights_file.h"

namespace paceline {

void PhaseTimer::begin() {
  host_.clear();
  events_.clear();
  device_.synchronize();
  began_ = host_seconds();
  mark();
}

void PhaseTimer::mark() {
  events_.push_back(device_.compute_stream().record());
  if (timing_ == Timing::step) return;
  device_.synchronize();
  host_.push_back(host_seconds());
}

void PhaseTimer::end_phase() { mark(); }

PhaseSeconds PhaseTimer::finish() {
  device_.synchronize();
  const double total = host_seconds() - began_;
  PhaseSeconds seconds;
  for (std::size_t i = 1; i < events_.size(); ++i) {
    seconds.push_back(timing_ == Timing::step ? events_[i]->seconds_since(*events_[i - 1])
                                              : host_[i] - host_[i - 1]);
  }
  seconds.push_back(total);
  return seconds;
}

TrainingStep::TrainingStep(Device& device, const StepShape& shape, const OpsConfig& ops,
                           const ModelOptions& options, std::uint64_t seed, StoreLayout layout)
    : device_(device),
      shape_(shape),
      options_(options),
      seed_(seed),
      ops_(device.make_ops(ops)),
      model_(device, shape.model, shape.precision, std::move(layout)),
      state_(StepState::create(device, shape.batch, shape.model.context, shape.precision.loss,
                               shape.precision.loss_scaling, options.learning_rate)),
      optimizer_(
          std::make_unique<AdamW>(model_.store(), options.adamw, Shard::whole(model_.store()))),
      timer_(device, options.timing) {}

std::vector<StoreArray> TrainingStep::arrays() {
  std::vector<StoreArray> arrays = model_.store().flat_arrays();
  const std::vector<StoreArray> state = optimizer_->flat_state();
  arrays.insert(arrays.end(), state.begin(), state.end());
  return arrays;
}

void TrainingStep::optimize(Shard shard) {
  optimizer_ = std::make_unique<AdamW>(model_.store(), options_.adamw, std::move(shard));
}

void TrainingStep::load(const Batch& batch) const {
  device_.to_device(state_.tokens, batch.tokens.data());
  device_.to_device(state_.targets, batch.targets.data());
}

void TrainingStep::reset() {
  if (options_.load_weights.empty()) {
    initialise_weights(*ops_, model_.store(), seed_);
  } else {
    load_weights(device_, *ops_, model_.store(), options_.load_weights);
  }
  optimizer_->reset(device_);
  state_.reset(device_, shape_.precision.loss_scaling, options_.learning_rate);
}

std::vector<std::string> TrainingStep::phases(const ParameterSync& sync) const {
  std::vector<std::string> phases = {"forward"};
  if (shape_.mode >= Mode::forward_backward) {
    phases.emplace_back("backward");
    if (sync.communicates()) phases.emplace_back("communication_exposed");
  }
  if (shape_.mode == Mode::train_step) phases.emplace_back("optimizer");
  phases.emplace_back("step");
  return phases;
}

PhaseSeconds TrainingStep::run(ParameterSync& sync) {
  const bool backward = shape_.mode >= Mode::forward_backward;
  mark("after init");
  timer_.begin();
  device_.ledger().begin_phase("forward");
  sync.begin_step();
  {
    const Scope scope(device_.scopes(), "forward");
    model_.forward(
        *ops_, state_, sync,
        {.keep = shape_.mode != Mode::inference, .recompute = shape_.recompute, .logits = logits_});
  }
  timer_.end_phase();
  mark("before backward", "forward");
  if (backward) {
    device_.ledger().begin_phase("backward");
    const Scope scope(device_.scopes(), "backward");
    model_.store().allocate_gradients();
    model_.backward(*ops_, state_, sync);
    timer_.end_phase();
    sync.finish();
    if (sync.communicates()) timer_.end_phase();
    mark("before optimizer", "backward");
  }
  if (shape_.mode == Mode::train_step) {
    device_.ledger().begin_phase("optimizer");
    const Scope scope(device_.scopes(), "optimizer");
    optimizer_->step(*ops_, state_);
    timer_.end_phase();
    sync.updated();
  }
  PhaseSeconds seconds = timer_.finish();
  mark("after step", shape_.mode == Mode::train_step ? "optimizer" : "");
  marking_.clear();
  return seconds;
}

PhaseSeconds TrainingStep::rehearse(ParameterSync& sync) {
  mark_memory("first");
  PhaseSeconds seconds = run(sync);
  repeat_until_settled(device_, "a steady step", [&] { (void)run(sync); });
  reset();
  return seconds;
}

void TrainingStep::mark_memory(const std::string& step) {
  device_.ledger().reset_peak();
  marking_ = step;
}

void TrainingStep::mark(const std::string& name, const std::string& phase) {
  if (marking_.empty()) return;
  const MemoryLedger& ledger = device_.ledger();
  MemoryMark m{.step = marking_,
               .mark = name,
               .bytes = ledger.bytes(),
               .peak_bytes = ledger.peak(),
               .phase = phase,
               .phase_peak_bytes = ledger.phase_peak()};
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    m.by_kind.at(k) = ledger.bytes(kind);
    m.phase_peak_by_kind.at(k) = ledger.phase_peak(kind);
  }
  marks_.push_back(std::move(m));
  if (marking_ == "first" && name == "before backward") kept_ = ledger.blocks();
}

std::string TrainingStep::divergence(const Shard& shard) {
  if (const double value = loss(); !std::isfinite(value))
    return fmt::format("the loss is {}", value);
  if (shape_.mode < Mode::forward_backward || shape_.precision.loss_scaling) return {};
  for (const StoreRange& range : shard.ranges) {
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
