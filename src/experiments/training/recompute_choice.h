#pragma once
// For a sweep over --recompute: the value with the lowest peak and the value with the fastest step.

#include <vector>

#include "experiments/training/training_case.h"
#include "record/case_record.h"

namespace paceline {

struct MeasuredRecompute {
  TrainingCase factors;
  double peak = 0;  // bytes
  double step = 0;  // s
};

// Table "recompute": one row per group of cases that differ only in --recompute. Empty if no group
// has two cases.
[[nodiscard]] std::vector<Table> recompute_tables(const Factors<TrainingCase>& factors,
                                                  const std::vector<MeasuredRecompute>& measured);

}  // namespace paceline
