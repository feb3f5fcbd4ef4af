#pragma once
// `paceline model`: end-to-end timing of a Transformer's step. Every rank runs its own replica;
// `ddp` derives from it and exchanges gradients.

#include <map>
#include <memory>
#include <optional>

#include "experiments/training/memory_record.h"
#include "experiments/training/training_step.h"
#include "harness/experiment.h"
#include "model/weights_file.h"
#include "parallel/gradient_sync.h"

namespace paceline {

class ModelExperiment : public Experiment {
 public:
  ModelExperiment(const Options& options, World& world, Device& device);

  [[nodiscard]] std::string name() const override { return "model"; }
  [[nodiscard]] std::vector<Case> cases() const override { return model_cases(); }
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  [[nodiscard]] Prediction predict(const Case& c) const override;
  void validate(const Case& c) const override;
  [[nodiscard]] CaseRecord run(const Case& c, Progress& progress) override;
  void after_saved() override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;

 protected:
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] World& world() const { return world_; }
  [[nodiscard]] Device& device() const { return device_; }
  // The product of the model's axes.
  [[nodiscard]] std::vector<Case> model_cases() const;
  // Of the rank that keeps the most.
  [[nodiscard]] StepShape shape_of(const Case& c) const;
  // How and where the case's parameters and gradients lie.
  [[nodiscard]] virtual StoreLayout store_layout(const Case& /*c*/) const { return {}; }
  // The part of Adam's state that each rank keeps; one value where all keep as much.
  [[nodiscard]] virtual std::vector<double> optimizer_shares(const Case& /*c*/) const {
    return {1};
  }
  // `rows` rows of the global batch, from this one on.
  [[nodiscard]] Batch batch_of(const Case& c, std::int64_t first_row, std::int64_t rows) const;

  // Who averages the step's gradients over ranks, and says what of the parameters this one updates;
  // null: nobody.
  [[nodiscard]] virtual std::unique_ptr<GradientSync> make_exchange(const Case& /*c*/,
                                                                    TrainingStep& /*step*/) {
    return nullptr;
  }
  // What its memory should be, measured on rank 0.
  [[nodiscard]] std::vector<MemoryLine> memory_lines(const Case& c) const;
  // Collective, before a case is measured, with nothing in memory: what it finds goes into the
  // record; a status other than ok ends the case.
  virtual void verify(CaseRecord& /*record*/, Progress& /*progress*/) {}

 private:
  struct Training {
    std::unique_ptr<TrainingStep> step;
    std::unique_ptr<GradientSync> exchange;  // or null
  };
  // One interval of a step on a stream; seconds from the step's begin.
  struct Interval {
    std::string stream;
    std::string name;
    double begin;
    double end;
    std::size_t bytes;  // of the message
    double sent;        // bytes, by a rank
  };
  // What one rank measured.
  struct Outcome {
    double gemm_ceiling = 0;    // FLOP/s
    double datasheet_peak = 0;  // FLOP/s; NaN where none is stated
    double setup_seconds = 0;
    PhaseSeconds rehearsal;
    Samples samples;
    MemoryOutcome memory;
    Table parameters;  // where they lie in memory
    double loss = 0;
    std::string divergence;          // TrainingStep::divergence()
    std::vector<Interval> timeline;  // of the last step; only with an exchange
  };

  [[nodiscard]] Training set_up(const Case& c, Progress& progress, Outcome& outcome);
  void sample(Training& training, Progress& progress, Outcome& outcome);
  void gather_for_dump(const Training& training);
  [[nodiscard]] static std::vector<Interval> timeline_of(const Training& training);
  [[nodiscard]] double gemm_ceiling(const Precision& precision);

  // Collective; model_record.cpp.
  void add_outcome(CaseRecord& record, const Outcome& outcome) const;
  void add_memory(CaseRecord& record, const Outcome& outcome) const;  // memory_record.cpp
  void add_marks(CaseRecord& record, const MemoryOutcome& memory) const;
  void add_communication(CaseRecord& record, const Outcome& outcome) const;
  void add_rates(CaseRecord& record, const Outcome& outcome) const;

  const Options& options_;
  World& world_;
  Device& device_;
  std::optional<Dump> dump_;                     // rank 0's, with --dump
  std::map<std::string_view, double> ceilings_;  // by precision, measured once
};

}  // namespace paceline
