#pragma once
// What a run prints when it ends, and per case with --json.

#include <string>
#include <vector>

#include "record/case_record.h"

namespace paceline {

// An aligned table of summary rows (as summary_row() makes them): of the factors in `factor_names`
// those that differ between rows in columns (those that do not, in one line above), then median and
// interval per phase in a unit that suits the column, then the experiment's columns; a row that is
// not ok says why instead.
[[nodiscard]] std::string console_table(const std::vector<std::vector<Column>>& rows,
                                        const std::vector<std::string>& factor_names);

// One line of JSON with the summary's names; NaN is null.
[[nodiscard]] std::string json_line(const std::vector<Column>& row);

}  // namespace paceline
