#pragma once
// --from: rates from our own result files, in place of the data sheet's.
//
// `model` files, and the cases of `ddp` files that exchange nothing, give the rates of products and
// of traffic for each device, precision, attention and execution; of the sizes that were measured
// also the ratio of measured to fitted time, which is interpolated between the numbers of tokens.
// Other cases of `ddp` and `zero` files give contention: what collectives cost the work that they
// run beside, as a part of their own time. `collectives --fit` files give latency and bandwidth of
// each operation.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/measured_steps.h"
#include "experiments/training/fitted_links.h"

namespace paceline {

class Calibration {
 public:
  // Throws UsageError (--from) for a file that holds neither steps nor a fit.
  explicit Calibration(const std::vector<std::string>& files);
  Calibration(std::vector<MeasuredStep> steps, std::vector<FittedLink> links);
  // As if the files had no case of this plan, so that it can be predicted from the others.
  [[nodiscard]] Calibration without(const PlanCase& plan) const;

  struct StepRates {
    WorkRates rates;
    double correction = 1;  // of the times by these rates
  };
  // Of the planned device, else of another of its kind. Nothing for a precision, attention and
  // execution that no file of that kind has.
  [[nodiscard]] std::optional<StepRates> rates_for(const PlanCase& plan) const;
  // Of an operation on as many ranks, or on the nearest number of them.
  [[nodiscard]] std::optional<FittedLink> link_for(std::string_view op, int ranks) const;
  // Of devices of the plan's kind; nothing without files of it.
  [[nodiscard]] std::optional<double> contention_for(const PlanCase& plan) const;

  // What of the plan no measurement covers: "context 8192 (measured: 128 to 1024)".
  [[nodiscard]] std::vector<std::string> extrapolations(const PlanCase& plan) const;
  // Files of other devices than the planned one: "rates of cpu, not of h100: not used".
  [[nodiscard]] std::vector<std::string> other_devices(const PlanCase& plan) const;

 private:
  struct Point {
    double tokens = 0;
    double ratio = 1;  // measured over fitted
  };
  struct Group {
    WorkRates rates;
    std::map<std::string, std::vector<Point>> by_size;  // points by tokens
  };

  // The device, and what its steps have in common.
  using GroupKey = std::pair<std::string, std::string>;
  using Groups = std::map<GroupKey, Group>;

  [[nodiscard]] static GroupKey key_of(const PlanCase& plan);
  [[nodiscard]] Groups::const_iterator group_for(const PlanCase& plan) const;
  void fit_steps();
  void fit_contention();
  [[nodiscard]] const std::vector<Point>* points_for(const PlanCase& plan) const;

  std::vector<MeasuredStep> steps_;
  std::vector<FittedLink> links_;
  std::set<std::string> link_devices_;
  Groups groups_;
  std::map<DeviceKind, double> contention_;
};

// The plan with the rates of the files.
[[nodiscard]] PlanCase calibrated(const PlanCase& plan, const Calibration& calibration);

}  // namespace paceline
