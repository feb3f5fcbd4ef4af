#pragma once
// The output at the end of a run, and per case with --json.

#include <string>
#include <vector>

#include "record/case_record.h"
#include "record/table_columns.h"
#include "record/text_table.h"

namespace paceline {

// The rows with status ok.
[[nodiscard]] std::vector<Row> ok_rows(const std::vector<Row>& rows);

// A table of summary rows: factors that differ between rows as columns (the others in one line
// above), then table_groups(), each column in a unit that suits it; a row that is not ok has its
// reason instead. As CSV: all factors, status, reason, and the same columns by their names in the
// summary, in the summary's units and with all digits; missing values are empty.
[[nodiscard]] std::string console_table(const std::vector<Row>& rows,
                                        const std::vector<std::string>& factor_names,
                                        const std::vector<ShownColumn>& shown,
                                        const TableOptions& options = {});

// A table of the whole sweep. Columns before the first measured number are shown as factors; a
// column "case" becomes the factors of the summary row with that id. Text or Markdown.
[[nodiscard]] std::string closing_table(const Table& table, const std::vector<Row>& rows,
                                        const std::vector<std::string>& factor_names,
                                        TableFormat format);

// The factors of a row, as text.
[[nodiscard]] FactorTexts factors_of_row(const Row& row, const std::vector<std::string>& names);

// "oom: about 140 MB are needed": the status and its reason, without the details that the file has.
[[nodiscard]] std::string short_reason(const std::string& status, const std::string& reason);

// One line of JSON, keyed by the summary's column names; NaN is null.
[[nodiscard]] std::string json_line(const Row& row);

}  // namespace paceline
