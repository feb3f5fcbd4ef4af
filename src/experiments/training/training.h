#pragma once
// `paceline model`, `ddp` and `zero`: training steps of a Transformer. They differ in their factors
// and so in their parallel strategies; `model` runs independent replicas.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "experiments/training/training_case.h"
#include "experiments/training/verify.h"
#include "harness/ceilings.h"
#include "harness/experiment.h"
#include "model/weights_file.h"

namespace paceline {

// The factors and the command's other options.
struct TrainingOptions {
  explicit TrainingOptions(TrainingKind of)
      : kind(of), factors(training_factors(of), training_defaults(of)) {}

  TrainingKind kind;
  FactorOptions<TrainingCase> factors;
  std::int64_t global_batch = 0;  // 0: not given
  double peak_tflops = 0;         // 0: not given
  std::string dump;
  std::string predict;  // ddp: a file of paceline-analysis rates
};

class TrainingExperiment final : public ExperimentOf<TrainingCase> {
 public:
  // data_parallel: the ranks that train on different rows of the batch. Throws UsageError for
  // options that cannot be combined or apply to no case.
  TrainingExperiment(const TrainingOptions& options, const RunOptions& run, World& world,
                     Device& device, const ProcessGroup& data_parallel);

  [[nodiscard]] std::string name() const override { return std::string(name_of(options_.kind)); }
  [[nodiscard]] std::vector<std::string> input_files(std::size_t index) const override;
  void after_saved() override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;
  // --predict: "predict". For a sweep over --recompute: "recompute".
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override;

 private:
  // Fills in the fields of a case that follow from the launch and from --size.
  void complete(TrainingCase& c) const;
  [[nodiscard]] Prediction prediction(const TrainingCase& c) const override;
  void check(const TrainingCase& c) const override;
  [[nodiscard]] std::string reason_to_skip(const TrainingCase& c) const override;
  [[nodiscard]] std::size_t device_memory(const TrainingCase& /*c*/) const override {
    return device_.info().memory_bytes;
  }
  void check_dump() const;
  void check_inputs(const TrainingCase& c) const;
  void check_exchange(const TrainingCase& c) const;
  [[nodiscard]] CaseRecord measure(const TrainingCase& c, Progress& progress) override;
  // Collective.
  void add_rates(CaseRecord& record, const TrainingCase& c);

  const TrainingOptions& options_;
  const RunOptions& run_;
  World& world_;
  Device& device_;
  ProcessGroup data_parallel_;
  std::unique_ptr<Communicator> gathers_;  // created for the first case with fsdp
  SingleProcess single_process_;           // of --verify
  std::optional<Dump> dump_;               // on rank 0, with --dump
  Ceilings ceilings_;
};

}  // namespace paceline
