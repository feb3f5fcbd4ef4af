#pragma once
// Text tables of the console.

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "record/display_unit.h"
#include "record/text_layout.h"

namespace paceline {

// The factors of a row, as text; "" for a factor that does not apply.
using FactorTexts = std::vector<std::pair<std::string, std::string>>;
// "size small, context 128, ...", in lines of 100 columns.
[[nodiscard]] std::string factors_line(const FactorTexts& factors);

// Factors that differ between the rows that have them, in order of first occurrence, with the texts
// of each row. `same`: those with one text in all rows; `where_applicable`: those with one text in
// the rows that have them, which other rows lack.
struct FactorColumns {
  explicit FactorColumns(const std::vector<FactorTexts>& rows);

  std::vector<std::string> names;
  std::vector<std::vector<std::string>> texts;  // [row][name]
  FactorTexts same;
  FactorTexts where_applicable;
};

class TextTable {
 public:
  using Align = TextColumn::Align;

  // `factors` has an entry for each row. Factors that differ between the rows that have them stand
  // in the first columns: numbers right-aligned, text left-aligned. The others are printed above
  // the table, those that some rows lack in a line of their own: "where applicable: bucket_mb 25".
  explicit TextTable(const std::vector<FactorTexts>& factors = {});

  // The head ends with the unit in brackets: "peak [MB]".
  void column(std::string head, Align align);
  [[nodiscard]] bool has_factor_column(std::string_view name) const;
  // The next columns form a group.
  void begin_group() { ++group_; }
  // The next row: `cells` follow its factors, `tail` follows the cells.
  void row(std::vector<std::string> cells, std::string tail = "");

  [[nodiscard]] std::string str() const;  // laid_out()
  [[nodiscard]] std::string markdown() const;

 private:
  [[nodiscard]] std::string above(std::string_view paragraph_end) const;

  FactorColumns factors_;
  std::vector<TextColumn> columns_;
  std::vector<TextRow> rows_;
  int group_ = 0;
};

}  // namespace paceline
