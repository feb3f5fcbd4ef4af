#pragma once
// `paceline precision`: numerical effects of mixed precision. Nothing is timed. All ranks compute
// the same; rank 0's results are recorded.

#include <string>
#include <vector>

#include "experiments/precision/precision_case.h"
#include "harness/experiment.h"

namespace paceline {

class PrecisionExperiment final : public ExperimentOf<PrecisionCase> {
 public:
  // Throws UsageError for an option that applies to no case.
  PrecisionExperiment(const FactorOptions<PrecisionCase>& options, World& world, Device& device);

  [[nodiscard]] std::string name() const override { return "precision"; }
  [[nodiscard]] std::string splitting_factor() const override { return "study"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  // "dtypes".
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override;
  [[nodiscard]] std::string notes() const override;

 private:
  [[nodiscard]] Prediction prediction(const PrecisionCase& c) const override;
  void check(const PrecisionCase& c) const override;
  [[nodiscard]] std::size_t device_memory(const PrecisionCase& /*c*/) const override {
    return device_.info().memory_bytes;
  }
  [[nodiscard]] CaseRecord measure(const PrecisionCase& c, Progress& progress) override;

  World& world_;
  Device& device_;
};

}  // namespace paceline
