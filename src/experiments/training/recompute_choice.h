#pragma once
// Of a sweep over --recompute: what keeps the least memory, and what is the fastest.

#include <vector>

#include "experiments/training/training_case.h"
#include "record/case_record.h"

namespace paceline {

struct MeasuredRecompute {
  TrainingCase factors;
  double peak = 0;  // bytes
  double step = 0;  // s
};

// "recompute": a row for all cases that differ in their recomputation alone. Nothing where no two
// do.
[[nodiscard]] std::vector<Table> recompute_tables(const Factors<TrainingCase>& factors,
                                                  const std::vector<MeasuredRecompute>& measured);

}  // namespace paceline
