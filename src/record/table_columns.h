#pragma once
// Which columns of the summary a table shows.

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
  std::vector<std::string> columns = {};  // names in the summary; none: what suits the experiment
};

// A column of the summary, and the short head that it gets in the console table.
struct ShownColumn {
  std::string name;
  std::string head;
  std::string format = {};  // of its numbers, as fmt has it; empty: in a unit that suits them
};

struct TableColumn {
  std::string head;                // without its unit
  std::vector<std::string> names;  // in the summary: one, or the bounds of an interval
  std::string scale_of = {};       // the column whose unit it shares; empty: it has its own
  std::string format = {};         // as ShownColumn has it
};
using TableGroup = std::vector<TableColumn>;  // columns that belong together

// Of `rows`, which are ok: the parts of the headline, where it has parts, else its phases, and the
// headline; then other phases and, with several ranks, every phase's maximum over ranks; then those
// of `shown` that hold a number or a text. With `options.columns` these alone.
[[nodiscard]] std::vector<TableGroup> table_groups(const std::vector<Row>& rows,
                                                   const std::vector<ShownColumn>& shown,
                                                   const TableOptions& options);

// What the times in these groups of `rows`, which are ok, are: sentences that stand below the
// table; nothing where there are no times.
[[nodiscard]] std::string times_note(const std::vector<Row>& rows, const TableOptions& options);

// The numbers in a column; NaN where a row lacks it, and for text.
[[nodiscard]] std::vector<double> numbers_in(const std::vector<Row>& rows, std::string_view name);

// Why `names` cannot all be shown, with those that there are; empty where they can.
[[nodiscard]] std::string unknown_columns(const std::vector<Row>& rows,
                                          const std::vector<std::string>& names);

}  // namespace paceline
