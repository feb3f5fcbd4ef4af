#pragma once
// One case of training on one rank: set-up of the model, the rehearsal, the measured steps.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "experiments/training/training_case.h"
#include "experiments/training/training_records.h"
#include "harness/case_run.h"
#include "model/weights_file.h"
#include "parallel/rehearsal_communicator.h"

namespace paceline {

// The layout and the allocator of the case's parameters and gradients. communicator: null without
// communication.
[[nodiscard]] StoreLayout store_layout(const TrainingCase& c, Communicator* communicator);

class TrainingRun final : public CaseRun {
 public:
  // world: all ranks. dump: filled on rank 0 with the values of --dump; null without --dump.
  TrainingRun(const TrainingCase& c, World& world, Device& device,
              const ProcessGroup& data_parallel, std::optional<Dump>* dump);

  void set_up(Progress& progress) override;
  // Collective. All ranks take over rank 0's tuned GEMM algorithms.
  void agree() override;
  void connect() override;
  void start() override;
  [[nodiscard]] std::vector<std::string> phases() const override { return runner_->phases(); }
  [[nodiscard]] std::vector<std::string> parts() const override;
  [[nodiscard]] PhaseSeconds repetition() override;
  [[nodiscard]] PhaseSeconds event_seconds() const override { return runner_->event_seconds(); }
  [[nodiscard]] std::vector<std::string> host_phases() const override;
  void capture_again() override;
  // The rehearsal's steps. Of several ranks only the first: later ones may differ in number.
  [[nodiscard]] Repetitions cold_repetitions() const override {
    Repetitions cold = rehearsal_;
    if (world_.size() > 1) cold.keep_first(1);
    return cold;
  }
  void add_to(CaseRecord& record) override;
  // The steps that loss scaling skipped. If it skipped all, the status is diverged.
  void add_repetitions(CaseRecord& record, std::size_t begin, std::size_t end) override;

 private:
  void capture();
  [[nodiscard]] PhaseSeconds run_step(bool replays);
  // Collective. Gathers the values of --dump on rank 0. dump: null on the other ranks.
  void dump_first_step(Dump* dump);
  void add_values(CaseRecord& record) const;
  void add_launches(CaseRecord& record) const;

  const TrainingCase& case_;
  World& world_;
  Device& device_;
  World& data_parallel_;
  std::optional<Dump>* dump_;
  std::optional<RehearsalCommunicator> communicator_;
  std::optional<RehearsalCommunicator> gathers_;
  std::unique_ptr<TrainingStep> step_;
  std::unique_ptr<StepRunner> runner_;
  double setup_seconds_ = 0;
  double capture_seconds_ = 0;
  Repetitions rehearsal_;
  bool first_ = true;            // the next repetition is the first
  bool counts_updates_;          // until add_to(): a profile must not contain the copy
  std::vector<double> updates_;  // with loss scaling: made by the end of each repetition
  std::vector<MemoryCounts> counts_;
};

}  // namespace paceline
