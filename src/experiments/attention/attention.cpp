#include "experiments/attention/attention.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>

#include "core/error.h"
#include "experiments/attention/attention_record.h"
#include "experiments/attention/attention_run.h"
#include "harness/cache_flush.h"
#include "harness/case_run.h"
#include "harness/profile_tables.h"
#include "model/accounting.h"

namespace paceline {

namespace {

class AttentionCaseRun final : public CaseRun {
 public:
  AttentionCaseRun(const AttentionCase& c, World& world, Device& device, const Ceiling& copy,
                   double peak_tflops)
      : case_(c), world_(world), device_(device) {
    outcome_.copy_ceiling = copy.is_reliable() ? copy.rate.median : std::nan("");
    outcome_.peak = peak_of(device, ops_config_of(c), peak_tflops);
  }

  // Loads the inputs, reserves all memory and checks the results.
  void set_up(Progress& progress) override {
    progress.update("set-up");
    const OpsConfig config = ops_config_of(case_);
    const AttentionShape shape = case_.shape();
    const auto seed = static_cast<std::uint64_t>(case_.seed);
    run_ = std::make_unique<AttentionRun>(device_, config, shape, case_.cache);
    AttentionInputs inputs(shape, config.precision.compute, seed, world_.rank());
    run_->load(inputs);
    progress.update("rehearsal");
    outcome_.memory = run_->rehearse();
    if (config.attention == AttentionKind::flash) outcome_.flash = run_->flash_plan();
    progress.update("check");
    const std::vector<std::int64_t> rows = checked_rows(shape, seed, outcome_.flash);
    run_->load_gradient(gradient_of_rows(inputs, rows));
    outcome_.errors = attention_errors(inputs, rows, run_->results(), config);
    outcome_.checked_rows = rows.size();
    run_->load_gradient(inputs.d_o);
  }

  void start() override {
    if (case_.launch == AttentionLaunch::graph) run_->capture();
  }

  [[nodiscard]] std::vector<std::string> phases() const override {
    return {attention_phases.begin(), attention_phases.end()};
  }
  [[nodiscard]] PhaseSeconds repetition() override { return run_->repetition(); }
  void capture_again() override { start(); }
  void add_to(CaseRecord& record) override { add_attention(record, world_, case_, outcome_); }

 private:
  const AttentionCase& case_;
  World& world_;
  Device& device_;
  std::unique_ptr<AttentionRun> run_;
  AttentionOutcome outcome_;
};

}  // namespace

AttentionExperiment::AttentionExperiment(const FactorOptions<AttentionCase>& options, World& world,
                                         Device& device, double peak_tflops)
    : world_(world), device_(device), ceilings_(world, device), peak_tflops_(peak_tflops) {
  set_cases(options.factors(), options.cases([&](AttentionCase& c) {
    complete_launch(c, world, device);
    return true;
  }));
}

Prediction AttentionExperiment::prediction(const AttentionCase& c) const {
  const AttentionShape shape = c.shape();
  const AttentionMemory memory =
      attention_memory(c.attention, c.precision, shape, c.device == DeviceKind::cpu);
  return {.flops = executed_attention_flops(c.attention, shape),
          .bytes = attention_forward_bytes(c.precision, shape) +
                   attention_backward_bytes(c.precision, shape),
          .memory_bytes = memory.peak(),
          .flush_bytes = static_cast<double>(flush_bytes(c.cache, &device_)),
          .memory_formula = memory.peak_formula()};
}

void AttentionExperiment::check(const AttentionCase& c) const {
  check_sampling(c);
  check_precision(c.precision, c.device);
  if (c.launch == AttentionLaunch::graph && c.device == DeviceKind::cpu) {
    throw UsageError("--launch: graph needs a GPU; use direct on the CPU");
  }
  if (peak_tflops_ > 0) require_one_arithmetic(ops_config_of(c), case_at(0).precision, c.device);
  require_a_case_that_runs(c);
}

std::string AttentionExperiment::reason_to_skip(const AttentionCase& c) const {
  return reason_without_kernels(device_, ops_config_of(c), c.shape());
}

CaseRecord AttentionExperiment::measure(const AttentionCase& c, Progress& progress) {
  if (auto skipped = skipped_case(world_, reason_to_skip(c))) return *std::move(skipped);
  device_.trim();
  const Ceiling& copy = ceilings_.copy();
  std::vector<const Ceiling*> ceilings = {&copy};
  std::optional<ProductCeilings> gemm;
  if (c.profile > 0) {
    gemm.emplace(ceilings_.products(ops_config_of(c)));
    for (const Ceiling* ceiling : gemm->all()) ceilings.push_back(ceiling);
  }
  AttentionCaseRun run(c, world_, device_, copy, peak_tflops_);
  CaseRecord record = measure_case(world_, device_, run, c, prediction(c), progress);
  if (record.samples.empty()) return record;
  record.tables.push_back(ceilings_table(ceilings));
  if (gemm) add_shares_of_ceilings(record, *gemm, copy);
  return record;
}

// Medians of naive over those of each other attention kind with equal other factors.
std::vector<Table> AttentionExperiment::closing_tables(const std::vector<SummaryRow>& rows) const {
  const auto is_ok = [](const SummaryRow& row) {
    return value_in<std::string>(row.columns, "status") == "ok";
  };
  const auto as_naive = [&](const SummaryRow& row) {
    AttentionCase c = case_at(row.index);
    static_cast<AttentionFactors&>(c) = {};
    return c;
  };
  const auto is_naive = [&](const SummaryRow& row) {
    return case_at(row.index).attention == AttentionKind::naive;
  };
  TableRows speed_up("speed_up");
  for (const SummaryRow& row : rows) {
    const auto naive = std::find_if(rows.begin(), rows.end(), [&](const SummaryRow& other) {
      return is_naive(other) && is_ok(other) && as_naive(other) == as_naive(row);
    });
    if (is_naive(row) || !is_ok(row) || naive == rows.end()) continue;
    std::vector<Cell> cells = {{"case", value_in<std::string>(row.columns, "case")}};
    for (const char* phase : attention_phases) {
      const std::string median = std::string(phase) + "_median_s";
      cells.push_back({phase, value_in<double>(naive->columns, median) /
                                  value_in<double>(row.columns, median)});
    }
    speed_up.add(cells);
  }
  if (speed_up.empty()) return {};
  return {speed_up.take()};
}

std::vector<ShownColumn> AttentionExperiment::shown_columns() const {
  return {{"forward_tflops_per_s", "forward"},
          {"backward_tflops_per_s", "backward"},
          {"both_bandwidth_floor_s", "floor"},
          {"saved_bytes", "saved"},
          {"peak_bytes", "peak"},
          {"largest_error_over_tolerance", "error/tolerance"}};
}

std::string AttentionExperiment::notes() const {
  constexpr const char* columns =
      "TFLOP/s: forward 4 B H T^2 d, half of it when causal, backward 2.5 times that, over the "
      "time; floor: the bytes of q, k, v, o and their gradients over the median copy rate. "
      "saved: kept for backward; formulas: B batch, H heads, T context, d head dimension, e bytes "
      "per element; "
      "error/tolerance: the largest error of an output over its tolerance; "
      "speed_up: naive's time over the case's";
  return columns + ceilings_.text();
}

}  // namespace paceline
