#include <memory>

#include "devices.h"
#include "experiments/precision/precision.h"
#include "harness/command.h"
#include "harness/sweep.h"

namespace paceline {

namespace {

class PrecisionCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    factors_.declare(p);
    p.presets(precision_presets(), {});
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
    RunInfo info = describe_launch(*world, device->info(), line, "precision");
    PrecisionExperiment experiment(factors_, *world, *device);
    return run_sweep(experiment, *world, std::move(info), run_);
  }

 private:
  FactorOptions<PrecisionCase> factors_{precision_case_factors()};
};

}  // namespace

std::unique_ptr<Command> precision_command() { return std::make_unique<PrecisionCommand>(); }

}  // namespace paceline
