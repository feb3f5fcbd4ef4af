#pragma once
// The parts of a record that come from a case's profile: the groups kernels/ and trace/, and
// columns of the summary.

#include <string>
#include <vector>

#include "harness/ceilings.h"
#include "harness/gather.h"
#include "measure/profile.h"
#include "measure/step_trace.h"
#include "record/case_record.h"

namespace paceline {

// The number of first steps whose every activity is recorded.
inline constexpr int steps_in_trace = 3;

// The profiles of all ranks.
struct ProfiledCase {
  std::vector<std::string> phases;                       // of a repetition
  std::vector<std::string> host_phases;                  // those that the host's clock times
  std::vector<StepProfile> profiles;                     // by rank
  std::vector<StepTrace> ranks;                          // by rank, the first steps_in_trace steps
  std::vector<ClockOffset> clocks;                       // by rank
  std::vector<std::vector<std::vector<double>>> events;  // [phase][rank][step] s, by events
  std::vector<std::vector<double>> steps;                // [rank][step] s, while profiling
  std::vector<std::vector<double>> steps_after;          // [rank][step] s, after profiling
};

// For a record with its samples, whose times by the host's clock stand beside those of the profile.
void add_profile_to(CaseRecord& record, const ProfiledCase& profiled);

// For a record with a profile: adds the ratios of the tables' rates to these ceilings; NaN for a
// ceiling that is not reliable. A scope with products of two ceilings has that of both together.
void add_shares_of_ceilings(CaseRecord& record, const ProductCeilings& gemm, const Ceiling& copy);

}  // namespace paceline
