#pragma once
// Text tables as wide as the terminal.

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace paceline
