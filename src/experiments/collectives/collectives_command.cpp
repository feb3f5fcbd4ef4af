#include <algorithm>
#include <memory>

#include "experiments/collectives/collectives.h"
#include "harness/command.h"
#include "harness/experiment.h"

namespace paceline {

namespace {

class CollectivesCommand final : public Command {
 public:
  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    options_.factors.declare(p);
    p.flag("--fit", options_.fit,
           "fit time = latency + bytes / bandwidth to each sweep over --bytes");
    p.presets(collective_presets(), {});
  }
  void check(const OptionParser& p) override {
    check_run_options(run_, p);
    options_.factors.finish(p);
    options_.all_backends = !p.given("--backend");
    const auto named = [&](BackendKind kind) {
      const std::vector<BackendKind> all = backends_of_cases();
      return p.by_name("--backend") && std::find(all.begin(), all.end(), kind) != all.end();
    };
    if (run_.device == DeviceChoice::cpu && named(BackendKind::nccl)) {
      throw UsageError("--backend: nccl moves GPU memory; leave out --device cpu");
    }
    if (run_.device == DeviceChoice::cuda && named(BackendKind::mpi)) {
      throw UsageError("--backend: mpi moves host memory; leave out --device cuda");
    }
  }
  [[nodiscard]] std::vector<FactorNote> factor_notes() const override {
    return notes_of(options_.factors.factors());
  }
  [[nodiscard]] std::optional<std::vector<BackendKind>> backends() const override {
    return options_.all_backends ? std::vector<BackendKind>{} : backends_of_cases();
  }
  [[nodiscard]] ExitCode run(Launch* launch) override {
    CollectivesExperiment experiment(options_, launch->world, std::move(launch->backends));
    return run_sweep(experiment, launch->world, std::move(launch->info), run_);
  }

 private:
  // The backends of all cases of the options, with repetitions.
  [[nodiscard]] std::vector<BackendKind> backends_of_cases() const {
    std::vector<BackendKind> kinds;
    for (const CollectiveCase& c : options_.factors.cases([](CollectiveCase&) { return true; })) {
      kinds.push_back(c.backend);
    }
    return kinds;
  }

  CollectivesOptions options_;
};

}  // namespace

std::unique_ptr<Command> collectives_command() { return std::make_unique<CollectivesCommand>(); }

}  // namespace paceline
