#pragma once
// The cases of result files of `model`, `ddp` and `zero`, as plans.

#include <string>
#include <vector>

#include "experiments/plan/plan_case.h"

namespace paceline {

// A case of a result file that ended well.
struct MeasuredStep {
  std::string name;  // its id
  PlanCase plan;
  double step_s = 0;
  double peak_bytes = 0;
  double sent_bytes = 0;  // NaN where the file has none
};
// Throws UsageError for a file that holds no cases of `model`, `ddp` or `zero`.
[[nodiscard]] std::vector<MeasuredStep> read_measured_steps(const std::string& path);

}  // namespace paceline
