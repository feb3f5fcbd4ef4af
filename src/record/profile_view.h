#pragma once
// What people see of profiles: the answers of a whole sweep, and the largest parts of one case.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "record/case_record.h"

namespace paceline {

// From the summary rows of profiled cases: forward by three clocks, the costliest kernels, the
// share of matrix products, and softmax beside the products around it.
[[nodiscard]] std::vector<Table> profile_answers(const std::vector<Row>& rows);

// The tables of a case's profile that are read back, to be shown again by --resume.
inline constexpr std::array<std::string_view, 4> shown_tables = {"kernels", "kernels/scopes",
                                                                 "kernels/phases", "trace/ranks"};

// From a case's tables: rank 0's costliest kernels, and its scopes with at least 1% of the kernels'
// time. Empty without a profile.
[[nodiscard]] std::vector<Table> largest_parts(const std::vector<Table>& tables);

// Which ranks' profiles come from events, and why; how many records were lost. Empty if none.
[[nodiscard]] std::string profile_remark(const std::vector<Table>& tables);

}  // namespace paceline
