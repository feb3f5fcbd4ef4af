#pragma once
// --from: rates fitted to our own result files, instead of the data sheet's.
//
// Cases without communication, of `model` and `ddp` files, give compute and memory rates for each
// device, precision, attention kind and execution; their kernels (--profile), if recorded, give
// each rate alone. For model sizes in the files, the ratio of measured to fitted time corrects the
// prediction, interpolated over the tokens per rank. Cases with communication, of `ddp` and `zero`
// files, give contention: by how much an overlapped collective slows the computation down, as a
// fraction of the collective's own time. `collectives --fit` files give latency and bandwidth of
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
  // Throws UsageError (--from) for a file that has neither measured steps nor a fit.
  explicit Calibration(const std::vector<std::string>& files);
  Calibration(std::vector<MeasuredStep> steps, std::vector<FittedLink> links);
  // Leave-one-out: the calibration without the cases of this plan.
  [[nodiscard]] Calibration without(const PlanCase& plan) const;

  struct StepRates {
    WorkRates rates;
    double correction = 1;  // measured over fitted time, for this model size
  };
  // Rates of the planned device, or of another device of its kind (cpu, cuda). Empty if no file of
  // that kind has the plan's precision, attention kind and execution.
  [[nodiscard]] std::optional<StepRates> rates_for(const PlanCase& plan) const;
  // The fit of an operation for the plan's number of ranks, or the nearest, at least 2, and for the
  // dtype that it exchanges, or another. Throws UsageError if the times of the fit do not grow with
  // the bytes.
  [[nodiscard]] std::optional<FittedLink> link_for(std::string_view op, const PlanCase& plan) const;
  // The median over cases on devices of the plan's kind; empty without such cases.
  [[nodiscard]] std::optional<double> contention_for(const PlanCase& plan) const;

  // What no measurement covers: "8192 tokens a rank, measured 128 to 1024".
  [[nodiscard]] std::vector<std::string> extrapolations(const PlanCase& plan) const;
  // Devices in the files other than the planned one: "rates of cpu, not of h100: not used".
  [[nodiscard]] std::vector<std::string> other_devices(const PlanCase& plan) const;

 private:
  struct Point {
    double tokens = 0;
    double ratio = 1;  // measured over fitted
  };
  struct Group {
    WorkRates rates;
    std::map<std::string, std::vector<Point>> by_size;  // key: size_of_model(); ascending in tokens
  };

  // The device; and device kind, precision, attention kind and execution (group_of()).
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

// The plan with the rates, latencies and bandwidths of the files instead of the data sheet's.
[[nodiscard]] PlanCase calibrated(const PlanCase& plan, const Calibration& calibration);

}  // namespace paceline
