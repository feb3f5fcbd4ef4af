#pragma once
// The choice of summary columns that a table shows.

#include <cstdint>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "record/case_record.h"

namespace paceline {

enum class TableFormat : std::uint8_t { text, md, csv };
constexpr auto names_of(TableFormat) { return names("text", "md", "csv"); }

enum class Statistic : std::uint8_t { median, mean };
constexpr auto names_of(Statistic) { return names("median", "mean"); }

struct TableOptions {
  TableFormat format = TableFormat::text;
  Statistic statistic = Statistic::median;
  std::vector<std::string> columns = {};  // names in the summary; empty: those of the experiment
};

// A column of the summary, and its short head in the console table.
struct ShownColumn {
  std::string name;
  std::string head;
  std::string format = {};  // fmt format of its numbers; empty: in a unit that suits them
};

struct TableColumn {
  std::string head;                // without its unit
  std::vector<std::string> names;  // in the summary: one, or the bounds of an interval
  std::string unit_from = {};      // the column whose unit it shares; empty: its own
  std::string format = {};         // that of ShownColumn
};
using TableGroup = std::vector<TableColumn>;  // columns that are kept together

// For `rows` with status ok: the parts of the headline, or else the phases, and the headline; then
// the other phases and, with several ranks, every phase's maximum over ranks; then the columns of
// `shown` that have a number or a text. With `options.columns` only those.
[[nodiscard]] std::vector<TableGroup> table_groups(const std::vector<Row>& rows,
                                                   const std::vector<ShownColumn>& shown,
                                                   const TableOptions& options);

// Text below the table that says what its times are, for `rows` with status ok; empty without
// times.
[[nodiscard]] std::string times_note(const std::vector<Row>& rows, const TableOptions& options);

// The numbers in a column; NaN for text and where a row lacks the column.
[[nodiscard]] std::vector<double> numbers_in(const std::vector<Row>& rows, std::string_view name);

// Which of `names` do not exist, with those that do; empty if all exist.
[[nodiscard]] std::string unknown_columns(const std::vector<Row>& rows,
                                          const std::vector<std::string>& names);

}  // namespace paceline
