#pragma once
// The layout of a table in lines of at most 100 columns.

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
  std::string tail;  // printed in place of missing cells
};

// Columns are two spaces apart; an empty cell is a dash. A table wider than a line first gets heads
// of several lines, then is broken into blocks, between groups if possible. Each block begins with
// the first `keys` columns, or with the row number if those take most of a line.
[[nodiscard]] std::string laid_out(std::vector<TextColumn> columns, std::vector<TextRow> rows,
                                   std::size_t keys);

// The text with every line wrapped at `width` columns, without a newline at the end.
[[nodiscard]] std::string wrapped(const std::string& text, std::size_t width = 100);

}  // namespace paceline
