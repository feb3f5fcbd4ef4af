#pragma once
// What a record keeps of a case's profile: the groups kernels/ and trace/, and columns of the
// summary.

#include <string>
#include <vector>

#include "harness/ceilings.h"
#include "harness/clock_offsets.h"
#include "measure/profile.h"
#include "measure/step_trace.h"
#include "record/case_record.h"

namespace paceline {

// Steps of which the record keeps every activity: the first.
inline constexpr int steps_in_trace = 3;

// Of all ranks.
struct ProfiledCase {
  std::vector<std::string> phases;                       // as a repetition has them
  std::vector<StepProfile> profiles;                     // by rank
  std::vector<StepTrace> ranks;                          // of the first steps_in_trace steps
  std::vector<ClockOffset> clocks;                       // by rank
  std::vector<std::vector<std::vector<double>>> events;  // [phase][rank][step] s, by events
  std::vector<std::vector<double>> steps;                // [rank][step] s, while profiling
  std::vector<std::vector<double>> steps_after;          // likewise, after it
};

void add_profile_to(CaseRecord& record, const ProfiledCase& profiled);

// For a record with a profile: what the host's clock said of each phase before it, of those phases
// that it times; NaN of others.
void add_host_seconds(CaseRecord& record, const std::vector<std::string>& host_phases);

// What the tables' rates are of these ceilings; nothing of one that is not sure, and in a record
// without a profile.
void add_shares_of_ceilings(CaseRecord& record, const Ceiling& gemm, const Ceiling& copy);

}  // namespace paceline
