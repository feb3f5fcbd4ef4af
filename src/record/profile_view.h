#pragma once
// What people see of profiles: the answers of a whole sweep, and the largest parts of one case.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "record/case_record.h"

namespace paceline {

// From the summary's rows of profiled cases: forward by three clocks, the costliest kernels, the
// share of matrix products, softmax beside the products around it.
[[nodiscard]] std::vector<Table> profile_answers(const std::vector<Row>& rows);

// What of a case's profile is read back to be shown again.
inline constexpr std::array<std::string_view, 4> shown_tables = {"kernels", "kernels/scopes",
                                                                 "kernels/phases", "trace/ranks"};

// Of a case's tables: rank 0's costliest kernels, and its regions of 1% of the kernels' time at
// least. Empty without a profile.
[[nodiscard]] std::vector<Table> largest_parts(const std::vector<Table>& tables);

// Which ranks' profiles are by events, and why; how many records are lost. Empty where nothing is
// to be said.
[[nodiscard]] std::string profile_remark(const std::vector<Table>& tables);

}  // namespace paceline
