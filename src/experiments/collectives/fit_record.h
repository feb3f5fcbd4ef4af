#pragma once
// --fit: time = latency + bytes / bandwidth, over the sizes of each sweep.

#include <vector>

#include "experiments/collectives/collective_case.h"
#include "measure/fit.h"
#include "record/case_record.h"

namespace paceline {

struct MeasuredCollective {
  CollectiveCase factors;
  TimedSize timed;
};

// "fit": latency and bandwidth of all cases that differ in their sizes alone; "fit_residuals": each
// case beside what its fit says. Nothing without a case.
[[nodiscard]] std::vector<Table> fit_tables(const std::vector<MeasuredCollective>& measured);

}  // namespace paceline
