#pragma once
// Builds the record of a case of `attention` from the ranks' measurements.

#include <array>
#include <cstddef>
#include <vector>

#include "core/world.h"
#include "experiments/attention/attention_case.h"
#include "experiments/attention/attention_check.h"
#include "experiments/attention/attention_run.h"
#include "harness/ceilings.h"
#include "record/case_record.h"

namespace paceline {

inline constexpr std::array<const char*, 3> attention_phases = {"forward", "backward", "both"};

// One rank's results other than its samples.
struct AttentionOutcome {
  double copy_ceiling = 0;  // bytes/s; NaN if its measurement is not reliable
  Peak peak;
  AttentionBytes memory;
  FlashPlan flash;
  std::vector<OutputError> errors;
  std::size_t checked_rows = 0;  // query rows per head
};

// Collective. Sets the status `mismatch` if an error exceeds its tolerance.
void add_attention(CaseRecord& record, World& world, const AttentionCase& c,
                   const AttentionOutcome& outcome);

}  // namespace paceline
