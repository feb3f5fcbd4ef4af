#include "experiments/training/training_run.h"

#include <algorithm>
#include <utility>

#include "core/clock.h"
#include "experiments/training/communication_record.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

StoreLayout store_layout(const TrainingCase& c, Communicator* communicator) {
  StoreLayout layout;
  if (communicator == nullptr) return layout;
  // Shards, whether the case has any or not: its memory is then laid out as that of one that has.
  layout.shards = communicator->size();
  if (c.exchanges() && c.registration == WindowRegistration::symmetric) {
    layout.allocate = [communicator](const Shape& shape, Dtype dtype, MemoryKind kind) {
      return communicator->allocate(shape, dtype, kind);
    };
  }
  return layout;
}

TrainingRun::TrainingRun(const TrainingCase& c, World& world, Device& device,
                         const ProcessGroup& data_parallel, std::optional<Dump>* dump)
    : case_(c), world_(world), device_(device), data_parallel_(data_parallel.world), dump_(dump) {
  if (data_parallel.communicator != nullptr) communicator_.emplace(*data_parallel.communicator);
}

void TrainingRun::set_up(Progress& progress) {
  memory_.counts.push_back(count_memory(device_, "before the case"));
  progress.update("set-up", 0);
  const double began = host_seconds();
  Communicator* communicator = communicator_ ? &*communicator_ : nullptr;
  step_ = std::make_unique<TrainingStep>(
      device_, case_, case_.exchanges() ? data_parallel_.size() : 1,
      store_layout(case_, communicator), [&](ParameterStore& store, Ops& ops) {
        return make_strategy(case_.strategy_config(), store, ops, communicator);
      });
  runner_ = std::make_unique<StepRunner>(*step_, case_.timing);
  step_->load(case_.rows(data_parallel_.rank() * case_.batch_size, case_.batch_size));
  step_->reset();
  if (dump_ != nullptr && world_.rank() == 0) {
    dump_->emplace(device_, case_.model(), case_.batch_size);
  }
  setup_seconds_ = host_seconds() - began;
  progress.update("rehearsal", 0);
  rehearsal_ = runner_->rehearse();
}

void TrainingRun::connect() {
  step_->strategy().register_memory();
  if (communicator_) {
    const Watched watched(world_.watch(), "connecting the ranks");
    communicator_->connect();
  }
}

void TrainingRun::start() {
  memory_.counts.push_back(count_memory(device_, "after set-up"));
  step_->reset();
  step_->strategy().start();
}

PhaseSeconds TrainingRun::repetition() {
  const bool first = std::exchange(first_, false);
  Dump* dump = first && dump_ != nullptr && *dump_ ? &**dump_ : nullptr;
  if (first) runner_->mark_memory("steady");
  if (dump != nullptr) step_->capture_logits(dump->logits());
  PhaseSeconds seconds;
  {
    std::optional<Watched> watched;
    if (communicator_) watched.emplace(world_.watch(), "a step");
    seconds = runner_->run();
  }
  if (first) gather_for_dump();
  if (dump != nullptr) dump->take_first_step(step_->state(), step_->model().store());
  step_->capture_logits({});
  return seconds;
}

void TrainingRun::gather_for_dump() {
  if (!communicator_ || dump_ == nullptr) return;
  const Watched watched(world_.watch(), "gathering for --dump");
  step_->strategy().gather();
}

// The loss, and whether it is a number, are those of the last measured step.
void TrainingRun::add_to(CaseRecord& record) {
  const std::string divergence = step_->divergence();
  add_values(record);
  add_communication(record, world_, *runner_, *step_);
  take_memory();
  gather_for_dump();
  if (dump_ != nullptr && *dump_) (*dump_)->take_weights(step_->model().store());
  if (case_.memory_timeline) {
    device_.ledger().start_recording();
    (void)repetition();
    memory_.timeline = device_.ledger().stop_recording();
  }
  add_memory(record, world_, case_, memory_);
  record.status = world_.agree(divergence.empty() ? Status::ok : Status::diverged);
  if (record.status == Status::diverged) {
    record.reason = first_text(world_, divergence) + "; lower --lr or check --load-weights";
  }
}

void TrainingRun::take_memory() {
  const MemoryLedger& ledger = device_.ledger();
  memory_.marks = runner_->marks();
  memory_.kept = runner_->kept();
  memory_.largest = ledger.largest(16);
  memory_.peak_bytes = ledger.peak();
  memory_.counts.push_back(count_memory(device_, "at the end"));
  memory_.parameters = parameters_table(step_->model().store(), step_->arrays());
}

// Collective.
void TrainingRun::add_values(CaseRecord& record) const {
  const auto all = gather_values<double>(world_, {step_->loss(), setup_seconds_});
  if (world_.rank() != 0) return;
  TableRows values("values");
  double slowest_setup = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    values.add(
        {{"rank", static_cast<std::int64_t>(r)}, {"loss", all[r][0]}, {"setup", all[r][1], "s"}});
    slowest_setup = std::max(slowest_setup, all[r][1]);
  }
  record.tables.push_back(values.take());
  record.add("setup_s", slowest_setup, "s");
  record.add("rehearsal_s", max_over_ranks(record.samples.back().warmup).front(), "s");
  record.add("loss", all[0][0]);
}

}  // namespace paceline
