#pragma once
// Tables for people: what the console table and the comparison are made of.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "record/scale.h"
#include "record/text_layout.h"

namespace paceline {

// The factors of a row, as text; "" where one does not apply.
using FactorTexts = std::vector<std::pair<std::string, std::string>>;
// "size small, context 128, ...", in lines of 100 columns.
[[nodiscard]] std::string factors_line(const FactorTexts& factors);

// The factors that differ between rows that have one: of each row those, with their texts, in the
// order of the first row, then as they appear. `same`: the others.
struct FactorColumns {
  explicit FactorColumns(const std::vector<FactorTexts>& rows);

  std::vector<std::string> names;
  std::vector<std::vector<std::string>> texts;  // [row][name]
  FactorTexts same;
};

class TextTable {
 public:
  using Align = TextColumn::Align;

  // A row for each of `factors`: those that are the same wherever they apply stand in a line above
  // the table, the others in its first columns, numbers to the right and text to the left.
  explicit TextTable(const std::vector<FactorTexts>& factors = {});

  // The head's unit stands in brackets behind it: "peak [MB]".
  void column(std::string head, Align align);
  // The columns that follow belong together.
  void begin_group() { ++group_; }
  // The next row: behind its factors `cells` fill columns; `tail` follows them.
  void row(std::vector<std::string> cells, std::string tail = "");

  [[nodiscard]] std::string str() const;  // laid_out()
  [[nodiscard]] std::string markdown() const;

 private:
  FactorColumns factors_;
  std::vector<TextColumn> columns_;
  std::vector<TextRow> rows_;
  int group_ = 0;
};

}  // namespace paceline
