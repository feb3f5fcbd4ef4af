#pragma once
// The tables that the screen shows of a run: text as wide as the terminal (text_table.cpp).

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/screen.h"
#include "record/case_record.h"

namespace paceline {

// The factors of a row, as text; "" for a factor that does not apply.
using FactorTexts = std::vector<std::pair<std::string, std::string>>;
// "size small, context 128, ...", wrapped between factors.
[[nodiscard]] std::string factors_line(const FactorTexts& factors, std::size_t width = 100);

// Factors that differ between the rows that have them, in order of first occurrence, with the texts
// of each row. `same`: the others, "25 where applicable" if some rows lack one.
struct FactorColumns {
  explicit FactorColumns(const std::vector<FactorTexts>& rows);

  std::vector<std::string> names;
  std::vector<std::vector<std::string>> texts;  // [name][row]
  FactorTexts same;
};

struct TextColumn {
  std::string head;   // ends with the unit in brackets: "peak [MB]"
  bool right = true;  // aligned
  std::vector<std::string> cells = {};
};

// A row for each of `tails`, and of `factors` if there are any. Factors that differ are the first
// columns: numbers right-aligned, text left-aligned. The others stand above the table. Columns are
// two spaces apart; an empty cell is a dash. A tail that is not empty is printed in place of the
// row's empty cells. A table wider than `width` first gets heads of several lines, then is broken
// into blocks, each of which begins with the factors.
[[nodiscard]] std::string text_table(const std::vector<FactorTexts>& factors,
                                     std::vector<TextColumn> columns,
                                     const std::vector<std::string>& tails, std::size_t width);

// A column of the summary, and its short head in the console table.
struct ShownColumn {
  std::string name;
  std::string head;
  std::string format = {};     // fmt format of its numbers; empty: in a unit that suits them
  std::string unit_from = {};  // the column whose unit it shares; empty: its own
  std::string high = {};       // with it: the interval from `name` to `high`
};

// The rows with status ok.
[[nodiscard]] std::vector<Row> ok_rows(const std::vector<Row>& rows);

// A table of summary rows: the factors; the headline with its interval; its parts, or else the
// phases; the other phases or, with several ranks, every phase's maximum over ranks; then the
// columns of `shown` that have a number or a text. A row that is not ok has its reason instead.
[[nodiscard]] std::string console_table(const std::vector<Row>& rows,
                                        const std::vector<std::string>& factor_names,
                                        const std::vector<ShownColumn>& shown,
                                        std::size_t width = screen_columns());

// Text below the table that says what its times are, for rows with status ok; empty without times.
[[nodiscard]] std::string times_note(const std::vector<Row>& rows);

// A table of the whole sweep. Columns before the first measured number are shown as factors; a
// column "case" becomes the factors of the summary row with that id.
[[nodiscard]] std::string closing_table(const Table& table, const std::vector<Row>& rows = {},
                                        const std::vector<std::string>& factor_names = {},
                                        std::size_t width = screen_columns());

// "oom: about 140 MB are needed": the status and its reason, without the details that the file has.
[[nodiscard]] std::string short_reason(const std::string& status, const std::string& reason);

}  // namespace paceline
