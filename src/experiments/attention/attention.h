#pragma once
// `paceline attention`: naive, fused and flash attention. Every rank measures independently, with
// its own inputs. Results are checked before timing.

#include "experiments/attention/attention_case.h"
#include "harness/ceilings.h"
#include "harness/experiment.h"

namespace paceline {

class AttentionExperiment final : public ExperimentOf<AttentionCase> {
 public:
  // peak_tflops: 0 for the data sheet's. Throws UsageError for an option that applies to no case.
  AttentionExperiment(const FactorOptions<AttentionCase>& options, World& world, Device& device,
                      double peak_tflops = 0);

  [[nodiscard]] std::string name() const override { return "attention"; }
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  // "speed_up": per phase, naive's median over the case's, for equal other factors.
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<SummaryRow>& rows) const override;
  [[nodiscard]] std::string notes() const override;

 private:
  [[nodiscard]] Prediction prediction(const AttentionCase& c) const override;
  void check(const AttentionCase& c) const override;
  [[nodiscard]] std::string reason_to_skip(const AttentionCase& c) const override;
  [[nodiscard]] std::size_t device_memory(const AttentionCase& /*c*/) const override {
    return device_.info().memory_bytes;
  }
  [[nodiscard]] CaseRecord measure(const AttentionCase& c, Progress& progress) override;

  World& world_;
  Device& device_;
  Ceilings ceilings_;
  double peak_tflops_;
};

}  // namespace paceline
