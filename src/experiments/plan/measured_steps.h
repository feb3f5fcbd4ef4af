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
// Throws UsageError for a file that holds no finished case of `model`, `ddp` or `zero`. The plan's
// hardware has the name of device_in_file().
[[nodiscard]] std::vector<MeasuredStep> read_measured_steps(const std::string& path);

// Throws UsageError for a folder.
[[nodiscard]] std::string experiment_in(const std::string& path);
// The first rank's: "cpu", or the model of the GPU, "NVIDIA H200".
[[nodiscard]] std::string device_in_file(const std::string& path);

// Whether two cases differ in nothing that a plan depends on, such as in --warmup alone.
[[nodiscard]] bool is_same_plan(const PlanCase& a, const PlanCase& b);

}  // namespace paceline
