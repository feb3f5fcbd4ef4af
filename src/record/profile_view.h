#pragma once
// What people see of profiles: the answers of a whole sweep, and the largest parts of one case.

#include <string>
#include <vector>

#include "record/case_record.h"

namespace paceline {

// From the summary's rows of profiled cases: forward by three clocks, the costliest kernels, the
// share of matrix products, softmax beside the products around it.
[[nodiscard]] std::vector<Table> profile_answers(const std::vector<Row>& rows);

// Rank 0's costliest kernels, and its scopes of 1% of the kernels' time at least. Empty for a
// record without a profile.
[[nodiscard]] std::vector<Table> largest_parts(const CaseRecord& record);

// Why a record's profile is by events: "timed by events (...); of graphs they show nothing". Empty
// where it is not, and where the device has no profiler of its own.
[[nodiscard]] std::string profile_remark(const CaseRecord& record);

}  // namespace paceline
