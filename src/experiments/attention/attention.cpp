#include "experiments/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/error.h"
#include "experiments/attention/attention_run.h"
#include "harness/cache_flush.h"
#include "harness/case_run.h"
#include "harness/ceilings.h"
#include "harness/gather.h"
#include "measure/statistics.h"
#include "model/accounting.h"

namespace paceline {

namespace {

constexpr std::array<const char*, 3> attention_phases = {"forward", "backward", "both"};

AttentionMemory memory_of(const AttentionCase& c) {
  return attention_memory(c.attention, c.precision, c.shape(), c.device == DeviceKind::cpu);
}

class AttentionCaseRun final : public CaseRun {
 public:
  AttentionCaseRun(const AttentionCase& c, World& world, Device& device, const Ceiling& copy,
                   double peak_tflops)
      : case_(c),
        world_(world),
        device_(device),
        copy_ceiling_(copy.is_reliable() ? copy.rate.median : std::nan("")),
        peak_(peak_of(device, ops_config_of(c), peak_tflops)) {}

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
    memory_ = run_->rehearse();
    if (config.attention == AttentionKind::flash) flash_ = run_->flash_plan();
    progress.update("check");
    const std::vector<std::int64_t> rows = checked_rows(shape, seed, flash_);
    run_->load_gradient(gradient_of_rows(inputs, rows));
    errors_ = attention_errors(inputs, rows, run_->results(), config);
    checked_rows_ = rows.size();
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
  void add_to(CaseRecord& record) override {
    add_check(record);
    if (world_.rank() != 0) return;
    add_rates(record);
    const AttentionMemory form = memory_of(case_);
    record.add("saved_bytes", static_cast<double>(memory_.saved));
    record.add("predicted_saved_bytes", form.saved);
    record.add("memory_before_backward_bytes", static_cast<double>(memory_.before_backward));
    record.add("peak_bytes", static_cast<double>(memory_.peak));
    record.add("predicted_peak_bytes", form.peak());
    record.add("workspace_bytes", static_cast<double>(memory_.workspace));
    if (case_.attention != AttentionKind::flash) return;
    for (const auto& [pass, tiles] :
         {std::pair("forward", flash_.forward), std::pair("backward", flash_.backward)}) {
      record.add(fmt::format("{}_kernels", pass), std::string(tiles.kernels));
      record.add(fmt::format("{}_tile_queries", pass), tiles.queries);
      record.add(fmt::format("{}_tile_keys", pass), tiles.keys);
      record.add(fmt::format("{}_parts", pass), tiles.parts);
    }
  }

 private:
  // Collective. Table "check": the error and the tolerance of every output of every rank. Sets the
  // status `mismatch` if an error exceeds its tolerance.
  void add_check(CaseRecord& record) const {
    std::vector<double> mine;
    for (const OutputError& e : errors_) mine.push_back(e.error);
    const auto all = gather_values(world_, mine);
    if (world_.rank() != 0) return;
    TableRows check("check");
    double most = 0;  // the largest error / tolerance
    for (std::size_t i = 0; i < errors_.size(); ++i) {
      OutputError worst = errors_[i];
      for (std::size_t r = 0; r < all.size(); ++r) {
        const OutputError one{worst.output, all[r][i], worst.tolerance};
        check.add({{"rank", static_cast<std::int64_t>(r)},
                   {"output", one.output},
                   {"error", one.error},
                   {"tolerance", one.tolerance},
                   {"checked_rows", static_cast<std::int64_t>(checked_rows_)}});
        if (!one.passed() || one.error > worst.error) worst = one;
      }
      record.add("error_" + worst.output, worst.error);
      most = std::max(most, std::isnan(worst.error) ? HUGE_VAL : worst.error / worst.tolerance);
      if (worst.passed() || record.status == Status::mismatch) continue;
      record.status = Status::mismatch;
      record.reason = fmt::format("{} is off by {:.2g}, more than {:g}; see check/", worst.output,
                                  worst.error, worst.tolerance);
    }
    record.add("largest_error_over_tolerance", most);
    record.tables.push_back(check.take());
  }
  void add_rates(CaseRecord& record) const {
    const double flops = attention_flops(case_.shape());
    const double in = attention_forward_bytes(case_.precision, case_.shape());
    const double out = attention_backward_bytes(case_.precision, case_.shape());
    const double backward = attention_backward_factor * flops;
    const std::array<double, 3> work = {flops, backward, flops + backward};
    const std::array<double, 3> moved = {in, out, in + out};
    constexpr double tera = 1e12;
    double fastest = 0;
    for (std::size_t p = 0; p < attention_phases.size(); ++p) {
      const std::string phase = attention_phases.at(p);
      const double seconds = summarize(max_over_ranks(record.samples[p].measured)).median;
      record.add(phase + "_tflops_per_s", work.at(p) / seconds / tera);
      record.add(phase + "_bandwidth_floor_s", moved.at(p) / copy_ceiling_);
      fastest = std::max(fastest, work.at(p) / seconds);
    }
    record.add("datasheet_tflops_per_s", peak_.rates.attention / tera);
    record.add("datasheet_source", peak_.source);
    warn_above_ceiling(record, fastest / peak_.rates.attention);
  }

  const AttentionCase& case_;
  World& world_;
  Device& device_;
  std::unique_ptr<AttentionRun> run_;
  double copy_ceiling_;  // bytes/s; NaN if its measurement is not reliable
  Peak peak_;
  AttentionBytes memory_;
  FlashPlan flash_;
  std::vector<OutputError> errors_;
  std::size_t checked_rows_ = 0;  // query rows per head
};

class AttentionExperiment final : public ExperimentOf<AttentionCase> {
 public:
  AttentionExperiment(const FactorOptions<AttentionCase>& options, World& world, Device& device,
                      double peak_tflops)
      : world_(world), device_(device), ceilings_(world, device), peak_tflops_(peak_tflops) {
    set_cases(options.factors(), options.cases([&](AttentionCase& c) {
      complete_launch(c, world, device);
      return true;
    }));
  }

  [[nodiscard]] std::string name() const override { return "attention"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override {
    return {{"forward_tflops_per_s", "forward"},
            {"backward_tflops_per_s", "backward"},
            {"both_bandwidth_floor_s", "floor"},
            {"saved_bytes", "saved"},
            {"peak_bytes", "peak"},
            {"largest_error_over_tolerance", "error/tolerance"}};
  }
  // "speed_up": per phase, naive's median over that of each other attention kind with equal other
  // factors.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override {
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
  [[nodiscard]] std::string notes() const override {
    constexpr const char* columns =
        "TFLOP/s: forward 4 B H T^2 d, half of it when causal, backward 2.5 times that, over the "
        "time; floor: the bytes of q, k, v, o and their gradients over the median copy rate. "
        "saved: kept for backward; formulas: B batch, H heads, T context, d head dimension, e "
        "bytes per element; "
        "error/tolerance: the largest error of an output over its tolerance; "
        "speed_up: naive's time over the case's";
    return columns + ceilings_.text();
  }

 private:
  [[nodiscard]] Prediction prediction(const AttentionCase& c) const override {
    const AttentionShape shape = c.shape();
    const AttentionMemory memory = memory_of(c);
    return {.flops = executed_attention_flops(c.attention, shape),
            .bytes = attention_forward_bytes(c.precision, shape) +
                     attention_backward_bytes(c.precision, shape),
            .memory_bytes = memory.peak(),
            .flush_bytes = static_cast<double>(flush_bytes(c.cache, &device_)),
            .memory_formula = memory.peak_formula()};
  }
  void check(const AttentionCase& c) const override {
    check_sampling(c);
    check_precision(c.precision, c.device);
    if (c.launch == AttentionLaunch::graph && c.device == DeviceKind::cpu) {
      throw UsageError("--launch: graph needs a GPU; use direct on the CPU");
    }
    if (peak_tflops_ > 0) require_one_arithmetic(ops_config_of(c), case_at(0).precision, c.device);
    require_a_case_that_runs(c);
  }
  [[nodiscard]] std::string reason_to_skip(const AttentionCase& c) const override {
    return reason_without_kernels(device_, ops_config_of(c), c.shape());
  }
  [[nodiscard]] std::size_t device_memory(const AttentionCase& /*c*/) const override {
    return device_.info().memory_bytes;
  }
  [[nodiscard]] CaseRecord measure(const AttentionCase& c, Progress& progress) override {
    if (auto skipped = skipped_case(world_, reason_to_skip(c))) return *std::move(skipped);
    device_.trim();
    const Ceiling& copy = ceilings_.copy();
    std::vector<const Ceiling*> ceilings = {&copy};
    if (c.profile > 0) {
      for (const Ceiling* gemm : ceilings_.products(ops_config_of(c)).all()) {
        ceilings.push_back(gemm);
      }
    }
    AttentionCaseRun run(c, world_, device_, copy, peak_tflops_);
    CaseRecord record = measure_case(world_, device_, run, c, prediction(c), progress);
    if (record.samples.empty()) return record;
    record.tables.push_back(ceilings_table(ceilings));
    return record;
  }

  World& world_;
  Device& device_;
  Ceilings ceilings_;
  double peak_tflops_;
};

}  // namespace

std::unique_ptr<Experiment> attention_experiment(const FactorOptions<AttentionCase>& options,
                                                 World& world, Device& device, double peak_tflops) {
  return std::make_unique<AttentionExperiment>(options, world, device, peak_tflops);
}

}  // namespace paceline
