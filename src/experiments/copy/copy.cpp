// `paceline copy`: times a copy within the device's memory. An example of an experiment: a case,
// its factors, how one case runs, and the command.

#include <memory>

#include "core/ops.h"
#include "devices.h"
#include "harness/case_run.h"
#include "harness/command.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"
#include "harness/sweep.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

struct CopyFactors {
  ByteCount bytes;
  Dtype dtype = Dtype::f32;

  [[nodiscard]] bool operator==(const CopyFactors&) const = default;
};

struct CopyCase : CopyFactors, SamplerConfig {
  [[nodiscard]] bool operator==(const CopyCase&) const = default;
};

Factors<CopyCase> copy_factors() {
  using C = CopyCase;
  return joined<C>(
      {factors_of<CopyFactors>(
           axis<C>(&C::bytes, "bytes", "of the array that is copied").by_default("1MB,100MB"),
           axis<C>(&C::dtype, "dtype")),
       sampling_factors<C>()});
}

class CopyRun final : public CaseRun {
 public:
  CopyRun(const CopyCase& c, World& world, Device& device)
      : case_(c), world_(world), device_(device), ops_(device.make_ops({})) {}

  void set_up(Progress& /*progress*/) override {
    const auto n = case_.bytes.bytes / static_cast<std::int64_t>(size_of(case_.dtype));
    from_ = device_.allocate({n}, case_.dtype, MemoryKind::workspace);
    to_ = device_.allocate({n}, case_.dtype, MemoryKind::workspace);
    device_.zero(from_);
  }
  [[nodiscard]] std::vector<std::string> phases() const override { return {"copy"}; }
  [[nodiscard]] PhaseSeconds repetition() override {
    const EventPtr begin = device_.compute_stream().record();
    ops_->cast(to_, from_);
    const EventPtr end = device_.compute_stream().record();
    device_.synchronize();
    return {end->seconds_since(*begin)};
  }
  void add_to(CaseRecord& record) override {
    if (world_.rank() != 0) return;
    const double seconds = summarize(max_over_ranks(record.samples.back().measured)).median;
    record.add("copy_bytes_per_s", 2 * static_cast<double>(case_.bytes.bytes) / seconds, "bytes/s");
  }

 private:
  const CopyCase& case_;
  World& world_;
  Device& device_;
  std::unique_ptr<Ops> ops_;
  Array from_;
  Array to_;
};

class CopyExperiment final : public ExperimentOf<CopyCase> {
 public:
  CopyExperiment(const FactorOptions<CopyCase>& options, World& world, Device& device)
      : world_(world), device_(device) {
    set_cases(options.factors(), options.cases([](CopyCase&) { return true; }));
  }
  [[nodiscard]] std::string name() const override { return "copy"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override {
    return {{"copy_bytes_per_s", "rate"}};
  }
  [[nodiscard]] std::string notes() const override {
    return "rate: bytes read and written over the time\n";
  }

 private:
  [[nodiscard]] Prediction prediction(const CopyCase& c) const override {
    const auto bytes = static_cast<double>(c.bytes.bytes);
    return {.flops = 0, .bytes = 2 * bytes, .memory_bytes = 2 * bytes};
  }
  void check(const CopyCase& c) const override { check_sampling(c); }
  [[nodiscard]] CaseRecord measure(const CopyCase& c, Progress& progress) override {
    CopyRun run(c, world_, device_);
    return measure_case(world_, device_, run, c, prediction(c).memory_bytes, progress);
  }

  World& world_;
  Device& device_;
};

class CopyCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    factors_.declare(p);
  }
  void check(const OptionParser& p) override {
    check_run_options(run_);
    factors_.finish(p);
  }
  [[nodiscard]] ExitCode run(World* world, const std::string& line) override {
    const std::unique_ptr<Device> device = make_device(run_, *world).device;
    CopyExperiment experiment(factors_, *world, *device);
    return run_sweep(experiment, *world, describe_launch(*world, device->info(), line, "copy"),
                     run_);
  }

 private:
  FactorOptions<CopyCase> factors_{copy_factors()};
};

}  // namespace

std::unique_ptr<Command> copy_command() { return std::make_unique<CopyCommand>(); }

}  // namespace paceline
