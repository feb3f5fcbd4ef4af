#pragma once
// `paceline zero`: data-parallel training with the optimizer's state sharded over ranks.

#include <memory>
#include <string>
#include <vector>

#include "experiments/training/ddp.h"

namespace paceline {

class ZeroExperiment final : public DdpExperiment {
 public:
  using DdpExperiment::DdpExperiment;

  [[nodiscard]] std::string name() const override { return "zero"; }
  [[nodiscard]] std::vector<Case> cases() const override;
  [[nodiscard]] std::vector<std::string> naming_factors() const override;
  [[nodiscard]] std::vector<ShownColumn> shown_columns() const override;
  [[nodiscard]] std::string notes() const override;
  [[nodiscard]] std::vector<Table> closing_tables(
      const std::vector<std::vector<Column>>& /*rows*/) const override {
    return {};
  }

 private:
  [[nodiscard]] std::vector<double> optimizer_shares(const Case& c) const override;
  [[nodiscard]] std::unique_ptr<GradientSync> make_exchange(const Case& c,
                                                            TrainingStep& step) override;
};

}  // namespace paceline
