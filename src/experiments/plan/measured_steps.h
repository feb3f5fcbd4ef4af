#pragma once
// The cases of result files of `model`, `ddp` and `zero`, as plans.

#include <string>
#include <vector>

#include "experiments/plan/plan_case.h"

namespace paceline {

// A case of a result file with status ok.
struct MeasuredStep {
  std::string name;  // its id
  PlanCase plan;
  double step_s = 0;
  double peak_bytes = 0;
  double sent_bytes = 0;  // per rank and step; NaN if the file has no such column
  // Rank 0's kernels: the time of each kind of work. Empty without --profile.
  std::vector<TimedWork> profiled = {};
};
// All cases with status ok; hardware.name of their plans is device_in_file(). Throws UsageError for
// a file without such a case of `model`, `ddp` or `zero`.
[[nodiscard]] std::vector<MeasuredStep> read_measured_steps(const std::string& path);

// The experiment that wrote a result file. Throws UsageError for a folder and for a damaged file.
[[nodiscard]] std::string experiment_in(const std::string& path);
// The first rank's device: "cpu", or the GPU's model, "NVIDIA H200".
[[nodiscard]] std::string device_in_file(const std::string& path);

// Whether two cases are equal in every factor that a plan depends on. --warmup, for example, is
// none.
[[nodiscard]] bool is_same_plan(const PlanCase& a, const PlanCase& b);

}  // namespace paceline
