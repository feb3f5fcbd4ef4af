#include <map>
#include <memory>
#include <string>

#include "experiments/training/training.h"
#include "harness/command.h"
#include "harness/experiment.h"

namespace paceline {

namespace {

const std::string sizes = "--size small,medium,large,xl,2.7b ";

// The course's benchmark: xl, context 128, global batch 4.
const std::string course = "--size xl --global-batch 4 ";
const std::string course_ddp =
    course + "--sync none,naive,flat,overlap,bucketed --bucket-mb 1,10,100,1000 ";

const Presets& training_presets(TrainingKind kind) {
  static const std::map<TrainingKind, Presets> presets = {
      {TrainingKind::model,
       {{"sizes", sizes + "--context 128,256,512,1024"},
        {"warmup", sizes},
        {"profile", sizes + "--context 128,256,512,1024 --profile 10"},
        {"precision", sizes + "--precision fp32,bf16"},
        {"memory",
         "--size 2.7b --context 128,256,512 --precision fp32,bf16 "
         "--mode inference,forward,train-step --memory-timeline yes"},
        {"checkpointing",
         "--size 2.7b --context 1024,2048 --precision bf16 --attention flash --timing step "
         "--recompute none,block,2,4,8"},
        {"compile", sizes + "--context 512 --exec eager,compiled --timing step "
                            "--mode forward,forward-backward,train-step"}}},
      {TrainingKind::ddp,
       {{"course", course_ddp},
        {"context", course + "--context 512,1024 --attention naive,flash "
                             "--sync naive,flat,overlap,bucketed --bucket-mb 256"},
        {"long", course_ddp + "--context 32 --global-batch 32 --steps 50"}}},
      {TrainingKind::zero,
       {{"course", course + "--shard none,broadcast,zero1"},
        {"fsdp",
         "--size xl,2.7b --context 512 --precision bf16 --attention flash "
         "--shard none,zero1,zero2,fsdp --prefetch 0,1,2 --reshard yes,no"}}}};
  return presets.at(kind);
}

// Options that, when given, replace another option of a preset: given -> replaced.
const std::map<std::string, std::string> exclusions = {{"--batch-size", "--global-batch"},
                                                       {"--d-model", "--size"}};

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
    p.presets(training_presets(options_.kind), exclusions);
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
