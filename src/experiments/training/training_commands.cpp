#include <memory>

#include "experiments/training/training.h"
#include "harness/command.h"
#include "harness/experiment.h"

namespace paceline {

namespace {

class TrainingCommand final : public Command {
 public:
  explicit TrainingCommand(TrainingKind kind) : options_(kind) {}

  void declare(OptionParser& p) override {
    declare_run_options(p, run_);
    options_.factors.declare(p);
    p.value("--global-batch", options_.global_batch,
            "sequences over all ranks, instead of --batch-size; ranks must divide it",
            {1, 1 << 20});
    declare_peak(p, options_.peak_tflops);
    p.value("--dump", options_.dump,
            "HDF5 file for logits, loss and gradients of the first step and the final weights");
    if (options_.kind == TrainingKind::ddp) {
      p.value(
          "--predict", options_.predict,
          "a file of paceline-analysis rates: compare the bucket equation with the measurement");
    }
    p.presets(training_presets(options_.kind), training_preset_exclusions());
  }

  void check(const OptionParser& p) override {
    check_run_options(run_, p);
    refuse_same_file("--dump", options_.dump, "--config", p.text("--config"));
    options_.factors.finish(p);
    if (run_.resume && !options_.dump.empty()) {
      throw UsageError(
          "--dump: cannot be combined with --resume, which may keep the case; use --force");
    }
    if (p.given("--global-batch") && p.by_name("--batch-size")) {
      throw UsageError("--global-batch: replaces --batch-size; give one of them");
    }
    read_custom_size(p, options_.factors, {"--d-model", "--d-ff", "--layers", "--heads"});
  }

  [[nodiscard]] bool needs_mpi() const override { return options_.kind != TrainingKind::model; }
  [[nodiscard]] std::vector<FactorNote> factor_notes() const override {
    return notes_of(options_.factors.factors());
  }
  [[nodiscard]] ExitCode run(Launch* launch) override {
    World& world = launch->world;
    std::unique_ptr<Communicator> communicator;
    if (options_.kind != TrainingKind::model) {
      communicator = launch->backends.front().make_communicator(world);
    }
    TrainingExperiment experiment(options_, run_, world, launch->device(),
                                  {world, communicator.get()});
    return run_sweep(experiment, world, std::move(launch->info), run_);
  }

 private:
  TrainingOptions options_;
};

}  // namespace

std::unique_ptr<Command> model_command() {
  return std::make_unique<TrainingCommand>(TrainingKind::model);
}
std::unique_ptr<Command> ddp_command() {
  return std::make_unique<TrainingCommand>(TrainingKind::ddp);
}
std::unique_ptr<Command> zero_command() {
  return std::make_unique<TrainingCommand>(TrainingKind::zero);
}

}  // namespace paceline
