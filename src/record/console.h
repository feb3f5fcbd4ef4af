#pragma once
// What a run prints when it ends, and per case with --json.

#include <string>
#include <vector>

#include "record/case_record.h"

namespace paceline {

// A column of the summary, and the short head that it gets in the console table.
struct ShownColumn {
  std::string name;
  std::string head;
};

// An aligned table of summary rows: factors that differ between rows
// in columns (those that do not, in one line above), then the phases' medians in a unit that suits
// the column, with the headline's 95% interval, then those of `columns` that hold a number; a row
// that is not ok says why.
[[nodiscard]] std::string console_table(const std::vector<Row>& rows,
                                        const std::vector<std::string>& factor_names,
                                        const std::vector<ShownColumn>& columns);

// Columns of equal length as an aligned table, numbers in units that suit them.
[[nodiscard]] std::string columns_text(const std::vector<Column>& columns);

// "oom: about 140 MB are needed": the status and its reason up to the details, which the file has.
[[nodiscard]] std::string short_reason(const std::string& status, const std::string& reason);

// One line of JSON with the summary's names; NaN is null.
[[nodiscard]] std::string json_line(const Row& row);

}  // namespace paceline
