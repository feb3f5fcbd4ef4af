#pragma once
// The command of an experiment whose ranks measure independently, each on a device of its own.

#include <type_traits>
#include <utility>
#include <vector>

#include "harness/command.h"
#include "harness/experiment.h"
#include "harness/factor_options.h"

namespace paceline {

// Experiments with a peak rate take --peak-tflops, in TFLOP/s, as last argument.
template <class Experiment, class C>
class RankCommand final : public Command {
 public:
  RankCommand(Factors<C> factors, const Presets& presets)
      : factors_(std::move(factors)), presets_(presets) {}

  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    factors_.declare(p);
    if constexpr (has_peak) declare_peak(p, peak_tflops_);
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
    Experiment experiment = [&] {
      if constexpr (has_peak) return Experiment(factors_, world, launch->device(), peak_tflops_);
      if constexpr (!has_peak) return Experiment(factors_, world, launch->device());
    }();
    return run_sweep(experiment, world, std::move(launch->info), run_);
  }

 private:
  static constexpr bool has_peak =
      std::is_constructible_v<Experiment, const FactorOptions<C>&, World&, Device&, double>;

  FactorOptions<C> factors_;
  const Presets& presets_;
  double peak_tflops_ = 0;
};

}  // namespace paceline
