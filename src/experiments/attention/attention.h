#pragma once
// `paceline attention`: one attention, three ways. Every rank measures its own, on inputs of its
// own; results are checked before anything is timed.

#include <memory>
#include <optional>

#include "experiments/attention/attention_run.h"
#include "harness/experiment.h"
#include "model/attention_accounting.h"

namespace paceline {

class AttentionExperiment final : public Experiment {
 public:
  AttentionExperiment(const Options& options, World& world, Device& device);

  [[nodiscard]] std::string name() const override { return "attention"; }
  [[nodiscard]] std::vector<Case> cases() const override;
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  [[nodiscard]] Prediction predict(const Case& c) const override;
  void validate(const Case& c) const override;
  [[nodiscard]] CaseRecord run(const Case& c, Progress& progress) override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  // Each attention's phases beside naive's with the same other factors.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<std::vector<Column>>& rows) const override;
  [[nodiscard]] std::string notes() const override;

 private:
  // What one rank measured.
  struct Outcome {
    double copy_ceiling = 0;  // bytes/s
    AttentionBytes memory;
    FlashPlan flash;
    std::vector<OutputError> errors;
    std::size_t checked_rows = 0;  // of queries, per head
    Samples samples;
  };

  [[nodiscard]] std::unique_ptr<AttentionRun> set_up(const Case& c, Progress& progress,
                                                     Outcome& outcome);
  [[nodiscard]] std::int64_t flush_bytes(const Case& c) const;
  [[nodiscard]] double copy_ceiling();
  // Collective; attention_record.cpp.
  void add_outcome(CaseRecord& record, const Outcome& outcome) const;
  void add_check(CaseRecord& record, const Outcome& outcome) const;
  void add_rates(CaseRecord& record, double copy_ceiling) const;

  const Options& options_;
  World& world_;
  Device& device_;
  std::optional<double> copy_ceiling_;  // measured once
};

// By a case's factors.
[[nodiscard]] AttentionShape attention_shape_of(const Case& c);

}  // namespace paceline
