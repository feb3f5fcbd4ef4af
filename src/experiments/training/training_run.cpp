#include "experiments/training/training_run.h"

#include <fmt/format.h>

#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "core/product_tuning.h"
#include "harness/gather.h"

namespace paceline {

namespace {

Row row_of(const TunedProduct& p) {
  constexpr double tera = 1e12;
  return {{"m", p.m},
          {"n", p.n},
          {"k", p.k},
          {"batch", p.batch},
          {"dtypes", p.dtypes},
          {"transposed", p.transposed},
          {"adds", p.adds},
          {"multiprocessors", std::int64_t{p.multiprocessors}},
          {"algorithm", p.algorithm},
          {"source", p.source},
          {"candidates", std::int64_t{p.candidates}},
          {"first", p.first_seconds},
          {"chosen", p.seconds},
          {"tflops_per_s", p.flops() / p.seconds / tera}};
}

// Collective. If GEMM algorithms were tuned by timing them: records a table of rank 0's GEMMs, and
// the seconds that tuning took on the slowest rank.
void add_products(CaseRecord& record, World& world, TrainingStep& step) {
  const ProductTuning* tuning = step.ops().product_tuning();
  if (tuning == nullptr) return;
  const double slowest = world.max(tuning->seconds());
  if (world.rank() != 0) return;
  TableRows products("products");
  for (const TunedProduct& product : tuning->products()) products.add(row_of(product));
  if (!products.empty()) record.tables.push_back(products.take());
  record.add("tuning_s", slowest);
}

}  // namespace

StoreLayout store_layout(const TrainingCase& c, Communicator* communicator) {
  StoreLayout layout;
  if (communicator == nullptr) return layout;
  layout.group_ends = c.strategy_shape().group_ends();
  if (is_sharded(c.strategy)) layout.shards = communicator->size();
  if (c.strategy == Strategy::fsdp) layout.kept_shard = communicator->rank();
  if (c.exchanges() && c.registration == WindowRegistration::symmetric) {
    layout.allocate = [communicator](const Shape& shape, Dtype dtype, MemoryKind kind) {
      return communicator->allocate(shape, dtype, kind);
    };
  }
  return layout;
}

TrainingRun::TrainingRun(const TrainingCase& c, World& world, Device& device,
                         const ProcessGroup& data_parallel, std::optional<Dump>* dump)
    : case_(c),
      world_(world),
      device_(device),
      data_parallel_(data_parallel.world),
      dump_(dump),
      counts_updates_(c.precision.loss_scaling && c.mode == Mode::train_step) {
  if (data_parallel.communicator != nullptr) {
    communicator_.emplace(*data_parallel.communicator, device.scopes());
  }
  if (data_parallel.gathers != nullptr) {
    gathers_.emplace(*data_parallel.gathers, device.scopes());
  }
}

void TrainingRun::set_up(Progress& progress) {
  counts_.push_back(count_memory(device_, "before the case"));
  progress.update("set-up");
  const double began = host_seconds();
  Communicator* communicator = communicator_ ? &*communicator_ : nullptr;
  Communicator* gathers = gathers_ ? &*gathers_ : nullptr;
  step_ = std::make_unique<TrainingStep>(
      device_, case_, case_.exchanges() ? data_parallel_.size() : 1,
      store_layout(case_, communicator), [&](ParameterStore& store, Ops& ops) {
        return make_strategy(case_.strategy_config(), store, ops, communicator, gathers);
      });
  if (case_.recycles_gradients() && dump_ == nullptr) step_->recycle_gradients();
  runner_ = std::make_unique<StepRunner>(*step_, case_.timing);
  step_->load(case_.rows(data_parallel_.rank() * case_.batch_size, case_.batch_size));
  step_->reset();
  if (dump_ != nullptr && world_.rank() == 0) {
    dump_->emplace(device_, case_.model(), case_.batch_size);
  }
  setup_seconds_ = host_seconds() - began;
  progress.update("rehearsal");
  if (dump_ != nullptr) step_->strategy().prepare_visits();
  rehearsal_ = runner_->rehearse();
  if (dump_ != nullptr) step_->rehearse_snapshots();
}

void TrainingRun::agree() {
  if (ProductTuning* tuning = step_->ops().product_tuning()) {
    const std::string mine = world_.rank() == 0 ? tuning->choices() : "";
    if (tuning->take(world_.broadcast(mine, 0))) (void)runner_->run();
  }
  if (communicator_) communicator_->require_free_memory();
}

void TrainingRun::connect() {
  step_->strategy().register_memory();
  if (communicator_) {
    const WatchdogScope watchdog_scope(world_.watchdog(), "connecting the ranks");
    communicator_->connect();
    if (gathers_) gathers_->connect();
  }
}

void TrainingRun::start() {
  counts_.push_back(count_memory(device_, "after set-up"));
  step_->reset();
  // Only fsdp needs this check: other strategies broadcast rank 0's parameters in start().
  const std::string loaded = std::to_string(step_->loaded());
  const bool other = case_.strategy == Strategy::fsdp && world_.broadcast(loaded, 0) != loaded;
  if (world_.max(other ? 1 : 0) > 0) {
    throw UsageError("--load-weights: ranks read different values; give all ranks the same file");
  }
  step_->strategy().start();
  if (case_.execution == Execution::eager) return;
  const double began = host_seconds();
  runner_->mark_memory("steady");
  capture();
  capture_seconds_ = host_seconds() - began;
}

void TrainingRun::capture() {
  const WatchdogScope watchdog_scope(world_.watchdog(), "capturing a step");
  runner_->capture();
}

std::vector<std::string> TrainingRun::host_phases() const {
  return case_.timing == Timing::step ? std::vector<std::string>{"step"} : phases();
}

void TrainingRun::capture_again() {
  if (runner_->captured()) capture();
}

// With sharded strategies, communication_exposed includes waits that are also in forward and
// backward. It is then not a part that adds up to the step.
std::vector<std::string> TrainingRun::parts() const {
  std::vector<std::string> parts = {"forward", "backward", "optimizer"};
  if (!is_sharded(case_.strategy)) parts.emplace_back("communication_exposed");
  return parts;
}

PhaseSeconds TrainingRun::repetition() {
  const bool first = std::exchange(first_, false);
  Dump* dump = first && dump_ != nullptr && *dump_ ? &**dump_ : nullptr;
  // Graphs do not copy logits, so the dumped step is not replayed. All ranks decide alike, since
  // collectives must be in graphs on all ranks or on none.
  const bool dumps = first && dump_ != nullptr;
  const bool replays = runner_->captured() && !dumps;
  if (first && !runner_->captured()) runner_->mark_memory("steady");
  if (dump != nullptr) step_->capture_logits(dump->logits());
  PhaseSeconds seconds = run_step(replays);
  if (dumps) dump_first_step(dump);
  step_->capture_logits({});
  if (counts_updates_) updates_.push_back(step_->state().get(device_, StepScalar::step));
  return seconds;
}

PhaseSeconds TrainingRun::run_step(bool replays) {
  const WatchdogScope watchdog_scope(world_.watchdog(), "a step");
  return replays ? runner_->replay() : runner_->run();
}

void TrainingRun::dump_first_step(Dump* dump) {
  const WatchdogScope watchdog_scope(world_.watchdog(), "gathering for --dump");
  if (dump != nullptr) dump->take_first_step(step_->state());
  if (case_.mode < Mode::forward_backward) return;
  step_->take_gradients(dump != nullptr ? &dump->gradients() : nullptr);
}

// Loss and divergence are read first: they belong to the last measured step.
void TrainingRun::add_to(CaseRecord& record) {
  const std::string divergence = step_->divergence();
  counts_updates_ = false;
  add_values(record);
  add_communication(record, world_, case_, *runner_, *step_);
  add_products(record, world_, *step_);
  counts_.push_back(count_memory(device_, "at the end"));
  add_memory(record, world_, case_, *runner_, device_.ledger(), counts_);
  if (dump_ != nullptr) {
    const WatchdogScope watchdog_scope(world_.watchdog(), "gathering for --dump");
    step_->take_parameters(*dump_ ? &(*dump_)->weights() : nullptr);
  }
  if (case_.memory_timeline) {
    device_.ledger().start_recording();
    (void)run_step(false);
    const std::vector<MemoryEvent> events = device_.ledger().stop_recording();
    if (world_.rank() == 0) {
      add_memory_timeline(record, events, step_->model().store(), step_->arrays());
    }
  }
  add_launches(record);
  record.status = world_.agree(divergence.empty() ? Status::ok : Status::diverged);
  if (record.status == Status::diverged) {
    record.reason = first_text(world_, divergence) + "; lower --lr or check --load-weights";
  }
}

void TrainingRun::add_repetitions(CaseRecord& record, std::size_t begin, std::size_t end) {
  if (updates_.empty() || begin == end) return;
  const double before = begin == 0 ? 0 : updates_.at(begin - 1);
  const auto count = static_cast<double>(end - begin);
  const double skipped = world_.max(count - (updates_.at(end - 1) - before));
  if (skipped == count && record.status == Status::ok) {
    record.status = Status::diverged;
    record.reason = fmt::format(
        "all {} measured steps were skipped, since gradients overflow fp16 with a loss scale of "
        "{:g}; lower --lr, warm up for longer (--warmup) or check --load-weights",
        count, step_->state().get(device_, StepScalar::loss_scale));
  }
  if (world_.rank() != 0) return;
  record.add("skipped_steps", static_cast<std::int64_t>(skipped));
  if (skipped == 0) return;
  record.warnings.push_back(
      {warning::skipped_steps, fmt::format("{} of {} steps were skipped", skipped, count)});
}

// Records the number of kernels of a step and the host's launch time. Called last, since it
// captures an eager step to count its kernels; the capture is collective.
void TrainingRun::add_launches(CaseRecord& record) const {
  if (device_.info().kind != DeviceKind::cuda) return;
  GraphNodes nodes;
  {
    const WatchdogScope watchdog_scope(world_.watchdog(), "capturing a step");
    try {
      nodes = runner_->nodes();
    } catch (const Error&) {  // the case is recorded without the counts
    }
  }
  const double slowest = world_.max(runner_->launch_seconds());
  if (world_.rank() != 0) return;
  record.add("launch_s", slowest);
  if (nodes.all > 0) {
    record.add("graph_nodes", nodes.all);
    record.add("graph_kernels", nodes.kernels);
  }
  TableRows fusions("fusions");
  for (const auto& [kernel, replaces] : step_->ops().fusions()) {
    fusions.add({{"kernel", kernel}, {"replaces", replaces}});
  }
  if (!fusions.empty()) record.tables.push_back(fusions.take());
}

// Collective.
void TrainingRun::add_values(CaseRecord& record) const {
  const auto all = gather_values<double>(world_, {step_->loss(), setup_seconds_});
  record.add("device_start_s", world_.max(device_.start_seconds()));
  record.add("setup_s", world_.max(setup_seconds_));
  record.add("library_s", world_.max(step_->library_seconds()));
  if (runner_->captured()) record.add("capture_s", capture_seconds_);
  record.add("rehearsal_s", world_.max(rehearsal_.seconds.back().front()));
  if (world_.rank() != 0) return;
  record.add("loss", all[0][0]);
  TableRows values("values");
  for (std::size_t r = 0; r < all.size(); ++r) {
    values.add({{"rank", static_cast<std::int64_t>(r)}, {"loss", all[r][0]}, {"setup", all[r][1]}});
  }
  record.tables.push_back(values.take());
}

}  // namespace paceline
