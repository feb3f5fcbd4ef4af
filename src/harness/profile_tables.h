#pragma once
// The parts of a record that come from a case's profile: the group trace/ and columns of the
// summary. What they tell about kernels and scopes is computed by analysis/profile_of_trace.py.

#include <string>
#include <vector>

#include "harness/gather.h"
#include "measure/step_trace.h"
#include "record/case_record.h"

namespace paceline {

// The profiles of all ranks.
struct ProfiledCase {
  std::vector<std::string> phases;                       // of a repetition
  std::vector<std::string> host_phases;                  // those that the host's clock times
  std::vector<StepTrace> ranks;                          // by rank
  std::vector<ClockOffset> clocks;                       // by rank
  std::vector<std::vector<std::vector<double>>> events;  // [phase][rank][step] s, by events
  std::vector<std::vector<double>> steps;                // [rank][step] s, while profiling
  std::vector<std::vector<double>> steps_after;          // [rank][step] s, after profiling
};

void add_profile_to(CaseRecord& record, const ProfiledCase& profiled);

}  // namespace paceline
