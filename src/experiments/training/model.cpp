#include "experiments/training/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "core/clock.h"
#include "core/error.h"
#include "experiments/attention/attention_factors.h"
#include "experiments/training/communication_times.h"
#include "harness/gather.h"
#include "harness/rehearsal.h"
#include "harness/stop_signal.h"
#include "parallel/no_sync.h"

namespace paceline {

namespace {

Mode mode_named(const std::string& name) {
  constexpr std::array<std::string_view, 4> names = {"inference", "forward", "forward-backward",
                                                     "train-step"};
  const auto* const it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw InternalError("'" + name + "' is no mode");
  return static_cast<Mode>(it - names.begin());
}

std::string recompute_text(std::int64_t every) {
  if (every == 0) return "none";
  return every == 1 ? "block" : std::to_string(every);
}

int recompute_value(const std::string& text) {
  if (text == "none") return 0;
  return text == "block" ? 1 : std::stoi(text);
}

// Collectives are skipped; the phases are those of a step that has them.
class Rehearsal final : public ParameterSync {
 public:
  explicit Rehearsal(bool communicates) : communicates_(communicates) {}
  [[nodiscard]] bool communicates() const override { return communicates_; }

 private:
  bool communicates_;
};

std::vector<std::string> phases_of(const TrainingStep& step, const ParameterSync& sync) {
  std::vector<std::string> phases = step.phases(sync);
  if (sync.communicates()) phases.insert(phases.end() - 1, "communication_total");
  return phases;
}

}  // namespace

ModelExperiment::ModelExperiment(const Options& options, World& world, Device& device)
    : options_(options), world_(world), device_(device) {}

std::vector<std::string> ModelExperiment::naming_factors() const {
  return {"size",           "context", "batch_size", "precision", "attention",
          "fp32_attention", "exec",    "mode",       "recompute"};
}

std::vector<Case> ModelExperiment::model_cases() const {
  const ModelOptions& m = options_.model;
  const RunOptions& run = options_.run;
  std::vector<std::int64_t> batches = m.batch_sizes;
  if (m.global_batch > 0) {
    if (m.global_batch % world_.size() != 0) {
      throw UsageError(
          fmt::format("--global-batch: {} rows cannot be split over {} ranks; use a "
                      "multiple",
                      m.global_batch, world_.size()));
    }
    batches = {m.global_batch / world_.size()};
  }
  std::vector<std::string> recompute;
  for (const std::int64_t every : m.recompute) recompute.push_back(recompute_text(every));

  Grid grid;
  grid.axis("size", m.sizes);
  grid.axis("context", m.contexts);
  grid.axis("batch_size", batches);
  grid.axis("precision", m.precisions);
  grid.axis("attention", m.attentions);
  grid.axis("exec", m.executions);
  grid.axis("mode", m.modes);
  grid.axis("recompute", recompute);
  std::vector<Case> cases = with_fp32_attention(grid.cases(), m.fp32_attentions);
  for (Case& c : cases) {
    if (c.text("mode") == "inference") c.set("recompute", std::string("none"));  // nothing to keep
    const bool custom = c.text("size") == "custom";
    const ModelConfig config = custom ? m.custom : model_named(c.text("size"));
    c.set("d_model", config.d_model);
    c.set("d_ff", config.d_ff);
    c.set("layers", config.layers);
    c.set("heads", config.heads);
    c.set("vocab", m.vocab);
    c.set("ranks", std::int64_t{world_.size()});
    c.set("device", device_.info().kind);
    c.set("threads", std::int64_t{device_.info().threads});
    c.set("timing", std::string(m.timing == Timing::phases ? "phases" : "step"));
    c.set("learning_rate", m.learning_rate);
    c.set("beta1", m.adamw.beta1);
    c.set("beta2", m.adamw.beta2);
    c.set("eps", m.adamw.eps);
    c.set("weight_decay", m.adamw.weight_decay);
    c.set("weights", m.load_weights.empty() ? std::string("random") : m.load_weights);
    c.set("tokens", m.tokens.empty() ? std::string("random") : m.tokens);
    c.set("seed", run.seed);
    c.set("deterministic", run.deterministic);
    set_sampling(c, run.sampler);
    if (m.memory_timeline) c.set("memory_timeline", true);
  }
  return without_repeats(std::move(cases));
}

StepShape ModelExperiment::shape_of(const Case& c) const {
  const std::vector<double> shares = optimizer_shares(c);
  const OpsConfig ops = ops_config_of(c);
  return {.model = {.vocab = c.integer("vocab"),
                    .context = c.integer("context"),
                    .d_model = c.integer("d_model"),
                    .d_ff = c.integer("d_ff"),
                    .layers = c.integer("layers"),
                    .heads = c.integer("heads")},
          .precision = ops.precision,
          .attention = ops.attention,
          .batch = c.integer("batch_size"),
          .mode = mode_named(c.text("mode")),
          .recompute = recompute_value(c.text("recompute")),
          .optimizer_share = *std::max_element(shares.begin(), shares.end()),
          .widens_gemms = c.text("device") == "cpu"};
}

Batch ModelExperiment::batch_of(const Case& c, std::int64_t first_row, std::int64_t rows) const {
  const BatchShape shape{.first_row = first_row,
                         .rows = rows,
                         .context = c.integer("context"),
                         .vocab = c.integer("vocab")};
  if (options_.model.tokens.empty()) {
    return random_batch(shape, static_cast<std::uint64_t>(c.integer("seed")));
  }
  return load_batch(options_.model.tokens, shape);
}

Prediction ModelExperiment::predict(const Case& c) const {
  const StepShape shape = shape_of(c);
  return {.flops = step_flops(shape),
          .bytes = step_bytes(shape),
          .memory_bytes = memory_form(shape).peak()};
}

std::vector<MemoryLine> ModelExperiment::memory_lines(const Case& c) const {
  StepShape of_rank_0 = shape_of(c);
  of_rank_0.optimizer_share = optimizer_shares(c).front();
  return paceline::memory_lines(of_rank_0);
}

void ModelExperiment::validate(const Case& c) const {
  const StepShape shape = shape_of(c);
  check_model(shape.model);
  check_precision(c);
  device_.check_attention(ops_config_of(c), {.batch = shape.batch,
                                             .context = shape.model.context,
                                             .heads = shape.model.heads,
                                             .head_dim = shape.model.head_dim()});
  if (!options_.model.load_weights.empty()) {
    check_weights_file(options_.model.load_weights, shape.model);
  }
  const std::int64_t rows = c.integer("batch_size");
  if (!options_.model.tokens.empty()) (void)batch_of(c, world_.rank() * rows, rows);
  if (!options_.model.dump.empty()) {
    if (cases().size() > 1) {
      throw UsageError("--dump: holds one case; this sweep has " + std::to_string(cases().size()));
    }
    if (options_.model.dump == options_.run.output) {
      throw UsageError("--dump: is the --output too; name another file");
    }
    if (world_.rank() == 0 && !options_.run.dry_run)
      Dump::check_writable(options_.model.dump, options_.run.force);
  }
}

CaseRecord ModelExperiment::run(const Case& c, Progress& progress) {
  device_.trim();  // what the case before has left
  CaseRecord record;
  record.factors = c;
  Outcome outcome;
  const Precision& precision = precision_named(c.text("precision"));
  outcome.gemm_ceiling = gemm_ceiling(precision);
  outcome.datasheet_peak =
      device_.datasheet_peak(precision).value_or(std::numeric_limits<double>::quiet_NaN());
  outcome.memory.counts.push_back(count_memory(device_, "before the case"));
  Training training;
  verify(record, progress);
  if (record.status != Status::ok) return record;
  const double predicted = predict(c).memory_bytes;
  if (!fits_in_memory(world_, record, predicted,
                      [&] { training = set_up(c, progress, outcome); })) {
    dump_.reset();  // there is no step to write down
    record.summary = {number("predicted_peak_bytes", "bytes", predicted)};
    return record;
  }
  device_.freeze();
  outcome.memory.counts.push_back(count_memory(device_, "after set-up"));
  if (training.exchange) training.exchange->start();
  sample(training, progress, outcome);
  add_outcome(record, outcome);
  record.status = world_.agree(outcome.divergence.empty() ? Status::ok : Status::diverged);
  if (record.status == Status::diverged) {
    record.reason = first_text(world_, outcome.divergence) + "; lower --lr or check --load-weights";
  }
  return record;
}

// The model in memory and one rehearsed step. Throws OutOfMemory.
ModelExperiment::Training ModelExperiment::set_up(const Case& c, Progress& progress,
                                                  Outcome& outcome) {
  progress.update("set-up", 0);
  const double began = host_seconds();
  const StepShape shape = shape_of(c);
  auto step = std::make_unique<TrainingStep>(device_, shape, ops_config_of(c), options_.model,
                                             static_cast<std::uint64_t>(c.integer("seed")),
                                             store_layout(c));
  const std::int64_t rows = c.integer("batch_size");
  step->load(batch_of(c, world_.rank() * rows, rows));
  step->reset();
  std::unique_ptr<GradientSync> exchange = make_exchange(c, *step);
  if (exchange) {
    step->optimize(exchange->shard());
    step->mean_over(world_.size());
  }
  if (!options_.model.dump.empty() && world_.rank() == 0) {
    dump_.emplace(device_, shape.model, shape.batch);
  }
  outcome.setup_seconds = host_seconds() - began;
  progress.update("rehearsal", 0);
  Rehearsal alone(exchange != nullptr);
  outcome.rehearsal = step->rehearse(alone);
  if (exchange) {
    add_communication_times(outcome.rehearsal, exchange->exchanges(), exchange->waits());
  }
  return {std::move(step), std::move(exchange)};
}

void ModelExperiment::sample(Training& training, Progress& progress, Outcome& outcome) {
  TrainingStep& step = *training.step;
  NoSync alone;
  ParameterSync& sync = training.exchange ? *training.exchange : static_cast<ParameterSync&>(alone);
  bool first = true;
  const auto watched_step = [&] {
    const Watched watched(world_.watch(), "a step");
    return step.run(sync);
  };
  const SamplerHooks hooks{
      .repetition =
          [&] {
            if (first) step.mark_memory("steady");
            if (first && dump_) step.capture_logits(dump_->logits());
            PhaseSeconds seconds = watched_step();
            if (training.exchange) {
              add_communication_times(seconds, training.exchange->exchanges(),
                                      training.exchange->waits());
            }
            if (first) gather_for_dump(training);
            if (first && dump_) dump_->take_first_step(step.state(), step.model().store());
            step.capture_logits({});
            first = false;
            return seconds;
          },
      .stop_requested = StopSignal::requested,
      .progress = shown_on(progress, options_.run.sampler),
  };
  outcome.samples = take_samples(world_, options_.run.sampler, phases_of(step, sync), hooks);
  outcome.timeline = timeline_of(training);
  outcome.loss = step.loss();
  outcome.divergence = step.divergence(training.exchange ? training.exchange->shard()
                                                         : Shard::whole(step.model().store()));
  MemoryLedger& ledger = device_.ledger();
  outcome.memory.marks = step.marks();
  outcome.memory.kept = step.kept();
  outcome.memory.largest = ledger.largest(16);
  outcome.memory.peak_bytes = ledger.peak();
  outcome.memory.counts.push_back(count_memory(device_, "at the end"));
  outcome.parameters = parameters_table(step.model().store(), step.arrays());
  gather_for_dump(training);
  if (dump_) dump_->take_weights(step.model().store());
  if (options_.model.memory_timeline) {
    ledger.start_recording();
    (void)hooks.repetition();
    outcome.memory.timeline = ledger.stop_recording();
  }
}

// Rank 0 writes down what every rank has a part of.
void ModelExperiment::gather_for_dump(const Training& training) {
  if (!training.exchange || options_.model.dump.empty()) return;
  const Watched watched(world_.watch(), "gathering for --dump");
  training.exchange->gather();
}

void ModelExperiment::after_saved() {
  if (!dump_) return;
  dump_->write(options_.model.dump);
  dump_.reset();
}

// All ranks measure at the same time, as they will run; the slowest counts.
double ModelExperiment::gemm_ceiling(const Precision& precision) {
  const auto it = ceilings_.find(precision.name);
  if (it != ceilings_.end()) return it->second;
  world_.barrier();
  const double mine = device_.gemm_ceiling(precision);
  return ceilings_[precision.name] = -world_.max(-mine);
}

}  // namespace paceline
