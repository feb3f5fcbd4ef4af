#pragma once
// `paceline model`: end-to-end timing of a Transformer's step. Every rank runs its own replica.

#include <map>
#include <memory>
#include <optional>

#include "experiments/experiment.h"
#include "experiments/training_step.h"
#include "model/weights_file.h"

namespace paceline {

class ModelExperiment final : public Experiment {
 public:
  ModelExperiment(const Options& options, World& world, Device& device);

  [[nodiscard]] std::string name() const override { return "model"; }
  [[nodiscard]] std::vector<Case> cases() const override;
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  [[nodiscard]] Prediction predict(const Case& c) const override;
  void validate(const Case& c) const override;
  [[nodiscard]] CaseRecord run(const Case& c, Progress& progress) override;
  void after_saved() override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;

 private:
  // What one rank measured.
  struct Outcome {
    double gemm_ceiling = 0;    // FLOP/s
    double datasheet_peak = 0;  // FLOP/s; NaN where none is stated
    double setup_seconds = 0;
    PhaseSeconds rehearsal;
    Samples samples;
    std::vector<MemoryMark> marks;
    std::vector<MemoryBlock> largest;
    std::size_t peak_bytes = 0;
    double loss = 0;
  };

  [[nodiscard]] StepShape shape_of(const Case& c) const;
  [[nodiscard]] Batch batch_of(const Case& c) const;
  [[nodiscard]] std::unique_ptr<TrainingStep> set_up(const Case& c, Progress& progress,
                                                     Outcome& outcome);
  void sample(TrainingStep& step, Progress& progress, Outcome& outcome);
  [[nodiscard]] double gemm_ceiling(const Precision& precision);

  // Collective; model_record.cpp.
  void add_outcome(CaseRecord& record, const Outcome& outcome) const;
  void add_memory(CaseRecord& record, const Outcome& outcome) const;
  void add_rates(CaseRecord& record, const Outcome& outcome) const;

  const Options& options_;
  World& world_;
  Device& device_;
  std::optional<Dump> dump_;                     // rank 0's, with --dump
  std::map<std::string_view, double> ceilings_;  // by precision, measured once
};

}  // namespace paceline
