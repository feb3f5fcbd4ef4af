#pragma once
// --rates: what was fitted to our own result files, instead of the data sheet's figures.

#include <string>
#include <vector>

#include "experiments/plan/plan_case.h"
#include "experiments/training/rates_file.h"

namespace paceline {

// The steps that share rates: device kind, precision, attention kind and execution.
[[nodiscard]] std::string group_of(const PlanCase& plan);
[[nodiscard]] std::string model_text(const PlanCase& plan);

// The plan with the rates, latencies and bandwidths of the file, where it has any. Rates are those
// of the planned device, or of another device of its kind. Links are those of the plan's number of
// ranks, or the nearest, and of the dtype that it exchanges, or another.
[[nodiscard]] PlanCase calibrated(const PlanCase& plan, const RatesFile& file);

// What no measurement covers: "8192 tokens a rank, measured 128 to 1024".
[[nodiscard]] std::vector<std::string> extrapolations(const PlanCase& plan, const RatesFile& file);

}  // namespace paceline
