#include "experiments/attention/attention.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/attention/attention_factors.h"
#include "harness/rehearsal.h"
#include "harness/stop_signal.h"

namespace paceline {

AttentionShape attention_shape_of(const Case& c) {
  return {.batch = c.integer("batch_size"),
          .context = c.integer("context"),
          .heads = c.integer("heads"),
          .head_dim = c.integer("head_dim"),
          .causal = c.text("causal") == "yes"};
}

AttentionExperiment::AttentionExperiment(const Options& options, World& world, Device& device)
    : options_(options), world_(world), device_(device) {}

std::vector<std::string> AttentionExperiment::naming_factors() const {
  return {"attention", "precision",  "fp32_attention", "flash_kernels", "causal", "head_dim",
          "context",   "batch_size", "heads",          "launch",        "cache"};
}

// Naive beside the others of the same other factors.
std::vector<Case> AttentionExperiment::cases() const {
  const AttentionOptions& a = options_.attention;
  Grid grid;
  grid.axis("precision", a.precisions);
  grid.axis("causal", a.causal);
  grid.axis("head_dim", a.head_dims);
  grid.axis("context", a.contexts);
  grid.axis("batch_size", a.batch_sizes);
  grid.axis("attention", a.attentions);
  std::vector<Case> cases = with_fp32_attention(grid.cases(), a.fp32_attentions);
  if (device_.info().kind == "cuda") cases = with_flash_kernels(cases, a.flash_kernels);
  for (Case& c : cases) {
    c.set("heads", a.heads);
    c.set("launch", a.launch);
    c.set("cache", a.cache);
    c.set("ranks", std::int64_t{world_.size()});
    c.set("device", device_.info().kind);
    c.set("threads", std::int64_t{device_.info().threads});
    c.set("seed", options_.run.seed);
    c.set("deterministic", options_.run.deterministic);
    set_sampling(c, options_.run.sampler);
  }
  return without_repeats(std::move(cases));
}

// Twice the last-level cache, or what is taken for that where it is not known.
std::int64_t AttentionExperiment::flush_bytes(const Case& c) const {
  constexpr std::int64_t least = 32 << 20;
  if (c.text("cache") == "warm") return 0;
  return 2 * std::max(least, static_cast<std::int64_t>(device_.info().cache_bytes));
}

Prediction AttentionExperiment::predict(const Case& c) const {
  const OpsConfig config = ops_config_of(c);
  const AttentionShape shape = attention_shape_of(c);
  const bool widens = c.text("device") == "cpu";
  return {.flops = attention_flops(shape) * (1 + attention_backward_factor),
          .bytes = attention_forward_bytes(config.precision, shape) +
                   attention_backward_bytes(config.precision, shape),
          .memory_bytes = attention_memory(config.attention, config.precision, shape, widens).peak};
}

void AttentionExperiment::validate(const Case& c) const {
  check_precision(c);
  const std::vector<std::string>& kernels = options_.attention.flash_kernels;
  const bool sm80 = std::find(kernels.begin(), kernels.end(), "sm80") != kernels.end();
  if (sm80 && c.text("device") == "cpu") {
    throw UsageError("--flash-kernels: sm80 needs a GPU; use newest on the CPU");
  }
  if (c.text("launch") == "graph" && c.text("device") == "cpu") {
    throw UsageError("--launch: graph needs a GPU; use direct on the CPU");
  }
  device_.check_attention(ops_config_of(c), attention_shape_of(c));
}

CaseRecord AttentionExperiment::run(const Case& c, Progress& progress) {
  device_.trim();  // what the case before has left
  CaseRecord record;
  record.factors = c;
  Outcome outcome;
  outcome.copy_ceiling = copy_ceiling();
  std::unique_ptr<AttentionRun> run;
  const double predicted = predict(c).memory_bytes;
  if (!fits_in_memory(world_, record, predicted, [&] { run = set_up(c, progress, outcome); })) {
    record.summary = {number("predicted_peak_bytes", "bytes", predicted)};
    return record;
  }
  device_.freeze();
  if (c.text("launch") == "graph") run->capture();
  const SamplerHooks hooks{.repetition = [&] { return run->repetition(); },
                           .stop_requested = StopSignal::requested,
                           .progress = shown_on(progress, options_.run.sampler)};
  outcome.samples =
      take_samples(world_, options_.run.sampler, {"forward", "backward", "both"}, hooks);
  add_outcome(record, outcome);
  record.status = world_.agree(record.status);
  return record;
}

// Inputs in memory, everything reserved, results compared. Throws OutOfMemory.
std::unique_ptr<AttentionRun> AttentionExperiment::set_up(const Case& c, Progress& progress,
                                                          Outcome& outcome) {
  progress.update("set-up", 0);
  const OpsConfig config = ops_config_of(c);
  const AttentionShape shape = attention_shape_of(c);
  const auto seed = static_cast<std::uint64_t>(c.integer("seed"));
  auto run = std::make_unique<AttentionRun>(device_, config, shape, flush_bytes(c));
  AttentionInputs inputs(shape, config.precision.compute, seed, world_.rank());
  run->load(inputs);
  progress.update("rehearsal", 0);
  outcome.memory = run->rehearse();
  if (config.attention == AttentionKind::flash) outcome.flash = run->flash_plan();
  progress.update("check", 0);
  const std::vector<std::int64_t> rows = checked_rows(shape, seed);
  run->load_gradient(gradient_of_rows(inputs, rows));
  outcome.errors = attention_errors(inputs, rows, run->results(), config);
  outcome.checked_rows = rows.size();
  run->load_gradient(inputs.d_o);
  return run;
}

// All ranks measure at the same time, as they will run; the slowest counts.
double AttentionExperiment::copy_ceiling() {
  if (!copy_ceiling_) {
    world_.barrier();
    copy_ceiling_ = -world_.max(-device_.copy_ceiling());
  }
  return *copy_ceiling_;
}

}  // namespace paceline
