#include <memory>

#include "devices.h"
#include "experiments/attention/attention.h"
#include "harness/command.h"
#include "harness/sweep.h"

namespace paceline {

namespace {

class AttentionCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    factors_.declare(p);
    declare_peak(p, peak_tflops_);
    p.presets(attention_presets(), {});
  }
  void check(const OptionParser& p) override {
    check_run_options(run_, p);
    factors_.finish(p);
  }
  [[nodiscard]] bool needs_mpi() const override { return false; }
  [[nodiscard]] std::vector<FactorNote> factor_notes() const override {
    return notes_of(factors_.factors());
  }
  [[nodiscard]] ExitCode run(World* world, const std::string& line) override {
    const std::unique_ptr<Device> device = make_device(run_, *world).device;
    RunInfo info = describe_launch(*world, device->info(), line, "attention");
    AttentionExperiment experiment(factors_, *world, *device, peak_tflops_);
    return run_sweep(experiment, *world, std::move(info), run_);
  }

 private:
  FactorOptions<AttentionCase> factors_{attention_case_factors()};
  double peak_tflops_ = 0;
};

}  // namespace

std::unique_ptr<Command> attention_command() { return std::make_unique<AttentionCommand>(); }

}  // namespace paceline
