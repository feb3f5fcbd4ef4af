#pragma once
// How a table is laid out in lines of at most 100 columns.

#include <cstddef>
#include <string>
#include <vector>

namespace paceline {

struct TextColumn {
  enum class Align : unsigned char { left, right };

  std::string head;  // "peak [MB]"
  Align align = Align::left;
  int group = 0;
};

struct TextRow {
  std::vector<std::string> cells;
  std::string tail;  // stands in place of the cells that are missing
};

// Rows under the heads of their columns, two spaces apart; an empty cell is a dash. A table that is
// wider than a line gets heads of several lines, and then breaks into blocks, where it can between
// groups. Each block begins with the first `keys` columns, or with the row's number where those
// take most of a line.
[[nodiscard]] std::string laid_out(std::vector<TextColumn> columns, std::vector<TextRow> rows,
                                   std::size_t keys);

// The same words, each line of the text broken into lines of at most `width` columns, without a
// line break at the end.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width = 100);

}  // namespace paceline
