#pragma once
// --from: rates from our own result files, in place of the data sheet's.
//
// `model` files, and the cases of `ddp` files that exchange nothing, give the rates of products and
// of traffic for each precision, attention and execution; of the sizes that were measured also the
// ratio of measured to fitted time, which is interpolated between the numbers of tokens. Other
// cases of `ddp` and `zero` files give contention: what collectives cost the work that they run
// beside, as a part of their own time. `collectives --fit` files give latency and bandwidth.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/measured_steps.h"
#include "experiments/training/fitted_links.h"

namespace paceline {

class Calibration {
 public:
  // Throws UsageError for a file that holds neither a finished step nor a fit.
  explicit Calibration(const std::vector<std::string>& files);
  Calibration(std::vector<MeasuredStep> steps, std::vector<FittedLink> links);
  // As if the files had no case of these factors, however it was sampled, so that it can be
  // predicted from the others.
  [[nodiscard]] Calibration without(const TrainingCase& step) const;

  struct StepRates {
    WorkRates rates;
    double correction = 1;  // of the times by these rates
  };
  // Nothing for a precision, attention and execution that no file has.
  [[nodiscard]] std::optional<StepRates> rates_for(const PlanCase& plan) const;
  // Of all_reduce on as many ranks, or on the nearest number of them.
  [[nodiscard]] std::optional<FittedLink> link_for(int ranks) const;
  [[nodiscard]] double contention() const { return contention_; }

  // What of the plan no measurement covers: "context 8192 (measured: 128 to 1024)".
  [[nodiscard]] std::vector<std::string> extrapolations(const PlanCase& plan) const;

 private:
  struct Point {
    double tokens = 0;
    double ratio = 1;  // measured over fitted
  };
  struct Group {
    WorkRates rates;
    std::map<std::string, std::vector<Point>> by_size;  // points by tokens
  };

  void fit_steps();
  void fit_contention();
  [[nodiscard]] const std::vector<Point>* points_for(const PlanCase& plan) const;

  std::vector<MeasuredStep> steps_;
  std::vector<FittedLink> links_;
  std::map<std::string, Group> groups_;
  double contention_ = 0;
  bool has_contention_ = false;
};

// The plan with the rates of the files.
[[nodiscard]] PlanCase calibrated(const PlanCase& plan, const Calibration& calibration);

}  // namespace paceline
