#pragma once
// From what the ranks measured of `attention` to the case's record.

#include <array>
#include <cstddef>
#include <vector>

#include "core/world.h"
#include "experiments/attention/attention_case.h"
#include "experiments/attention/attention_check.h"
#include "experiments/attention/attention_run.h"
#include "record/case_record.h"

namespace paceline {

inline constexpr std::array<const char*, 3> attention_phases = {"forward", "backward", "both"};

// What one rank measured, beside its samples.
struct AttentionOutcome {
  double copy_ceiling = 0;  // bytes/s; NaN where it is not sure
  AttentionBytes memory;
  FlashPlan flash;
  std::vector<OutputError> errors;
  std::size_t checked_rows = 0;  // of queries, per head
};

// Collective. An error above its bar makes the case a mismatch.
void add_attention(CaseRecord& record, World& world, const AttentionCase& c,
                   const AttentionOutcome& outcome);

}  // namespace paceline
