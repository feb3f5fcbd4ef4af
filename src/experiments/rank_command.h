#pragma once
// The command of an experiment whose ranks measure independently, each on a device of its own.

#include <memory>
#include <utility>
#include <vector>

#include "harness/command.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"

namespace paceline {

template <class C>
class RankCommand final : public Command {
 public:
  using Make = std::unique_ptr<Experiment>(const FactorOptions<C>& options, World& world,
                                           Device& device, double peak_tflops);

  // has_peak: whether the command takes --peak-tflops, which is 0 if it is not given.
  RankCommand(Factors<C> factors, const Presets& presets, Make* make, bool has_peak)
      : factors_(std::move(factors)), presets_(presets), make_(make), has_peak_(has_peak) {}

  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    factors_.declare(p);
    if (has_peak_) declare_peak(p, peak_tflops_);
    p.presets(presets_, {});
  }
  void check(const OptionParser& p) override {
    check_run_options(run_, p);
    factors_.finish(p);
  }
  [[nodiscard]] bool needs_mpi() const override { return false; }
  [[nodiscard]] std::vector<FactorNote> factor_notes() const override {
    return notes_of(factors_.factors());
  }
  [[nodiscard]] ExitCode run(Launch* launch) override {
    World& world = launch->world;
    const auto experiment = make_(factors_, world, launch->device(), peak_tflops_);
    return run_sweep(*experiment, world, std::move(launch->info), run_);
  }

 private:
  FactorOptions<C> factors_;
  const Presets& presets_;
  Make* make_;
  bool has_peak_;
  double peak_tflops_ = 0;
};

}  // namespace paceline
