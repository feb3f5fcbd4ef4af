#include "record/text_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <sstream>

namespace paceline {

namespace {

constexpr std::size_t line_width = 100;
constexpr std::size_t gap = 2;

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// "communication_exposed [ms]" -> "communication", "exposed", "[ms]": lines as wide as the longest
// word or the column's cells, whichever is wider.
Lines broken_head(const std::string& head, std::size_t cells) {
  std::vector<std::size_t> ends;  // of words
  for (std::size_t i = 0; i < head.size(); ++i) {
    if (head[i] == ' ' || head[i] == '_') ends.push_back(i);
  }
  ends.push_back(head.size());
  std::size_t room = cells;
  for (std::size_t begin = 0; const std::size_t end : ends) {
    room = std::max(room, end - begin);
    begin = end + 1;
  }
  Lines lines;
  std::size_t line = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (i + 1 < ends.size() && ends[i + 1] - line <= room) continue;
    lines.push_back(head.substr(line, ends[i] - line));
    line = ends[i] + 1;
  }
  return lines;
}

class Layout {
 public:
  Layout(std::vector<TextColumn> columns, std::vector<TextRow> rows, std::size_t keys)
      : columns_(std::move(columns)), rows_(std::move(rows)), keys_(keys) {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      heads_.push_back({columns_[i].head});
      cells_.push_back(0);
      for (const TextRow& row : rows_) {
        if (i < row.cells.size()) cells_[i] = std::max(cells_[i], cell(row, i).size());
      }
    }
  }

  [[nodiscard]] std::string str() {
    if (columns_.empty()) return tails();
    if (width(0, columns_.size()) > line_width) break_heads();
    if (width(0, columns_.size()) <= line_width) return block(all(), true);
    const std::vector<std::vector<std::size_t>> blocks = broken();
    std::string out;
    for (const auto& columns : blocks) {
      if (!out.empty()) out += '\n';
      out += block(columns, &columns == &blocks.back());
    }
    return out;
  }

  // Width of the columns [begin, end) and the gaps between them.
  [[nodiscard]] std::size_t width(std::size_t begin, std::size_t end) const {
    std::size_t sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += width(i) + gap;
    return sum - std::min(sum, gap);
  }

  void break_heads() {
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      heads_[i] = broken_head(columns_[i].head, cells_[i]);
    }
  }

 private:
  [[nodiscard]] static std::string cell(const TextRow& row, std::size_t i) {
    return i >= row.cells.size() || row.cells[i].empty() ? "-" : row.cells[i];
  }
  [[nodiscard]] std::size_t width(std::size_t i) const {
    std::size_t width = cells_[i];
    for (const std::string& line : heads_[i]) width = std::max(width, line.size());
    return width;
  }
  [[nodiscard]] std::vector<std::size_t> all() const {
    std::vector<std::size_t> columns(columns_.size());
    std::iota(columns.begin(), columns.end(), 0);
    return columns;
  }

  // The columns of each block, the keys first.
  [[nodiscard]] std::vector<std::vector<std::size_t>> broken() const {
    std::vector<std::size_t> keys = all();
    keys.resize(keys_);
    std::vector<std::vector<std::size_t>> blocks = {keys};
    std::size_t used = width(0, keys_);
    const auto take = [&](std::size_t begin, std::size_t end) {
      if (used + gap + width(begin, end) > line_width && blocks.back().size() > keys_) {
        blocks.push_back(keys);
        used = width(0, keys_);
      }
      for (std::size_t i = begin; i < end; ++i) blocks.back().push_back(i);
      used += gap + width(begin, end);
    };
    for (std::size_t begin = keys_; begin < columns_.size();) {
      std::size_t end = begin;
      while (end < columns_.size() && columns_[end].group == columns_[begin].group) ++end;
      if (width(0, keys_) + gap + width(begin, end) > line_width) {
        for (std::size_t i = begin; i < end; ++i) take(i, i + 1);
      } else {
        take(begin, end);
      }
      begin = end;
    }
    return blocks;
  }

  [[nodiscard]] std::string aligned(const std::string& text, std::size_t i) const {
    const bool right = columns_[i].align == TextColumn::Align::right;
    return right ? fmt::format("{:>{}}", text, width(i)) : fmt::format("{:<{}}", text, width(i));
  }

  [[nodiscard]] static std::string ended(std::string line) {
    line.erase(line.find_last_not_of(' ') + 1);
    return line + '\n';
  }

  [[nodiscard]] std::string block(const std::vector<std::size_t>& columns, bool last) const {
    std::size_t lines = 0;
    for (const std::size_t i : columns) lines = std::max(lines, heads_[i].size());
    std::string out;
    for (std::size_t n = 0; n < lines; ++n) {
      std::string line;
      for (const std::size_t i : columns) {
        const std::size_t above = lines - heads_[i].size();  // empty lines
        line += aligned(n < above ? "" : heads_[i][n - above], i) + std::string(gap, ' ');
      }
      out += ended(line);
    }
    for (const TextRow& row : rows_) out += line(row, columns, last);
    return out;
  }

  [[nodiscard]] std::string line(const TextRow& row, const std::vector<std::size_t>& columns,
                                 bool last) const {
    const std::size_t given = row.cells.size();
    const bool goes_on =
        given == columns_.size() ? last : std::count(columns.begin(), columns.end(), given) > 0;
    const bool has_tail = !row.tail.empty() && goes_on;
    std::string out;
    for (const std::size_t i : columns) {
      if (has_tail && i >= given) break;
      out += aligned(cell(row, i), i) + std::string(gap, ' ');
    }
    return ended(has_tail ? out + tail(row, out.size()) : out);
  }

  // The row's tail, every line indented to this column.
  [[nodiscard]] static std::string tail(const TextRow& row, std::size_t indent) {
    constexpr std::size_t least = 20;
    const std::size_t room = std::max(least, line_width - std::min(indent, line_width));
    const Lines lines = lines_of(wrapped(row.tail, room));
    std::string next = "\n";
    next.append(indent, ' ');
    return fmt::format("{}", fmt::join(lines, next));
  }

  [[nodiscard]] std::string tails() const {
    std::string out;
    for (const TextRow& row : rows_) out += ended(tail(row, 0));
    return out;
  }

  std::vector<TextColumn> columns_;
  std::vector<TextRow> rows_;
  std::size_t keys_;
  std::vector<Lines> heads_;        // by column
  std::vector<std::size_t> cells_;  // width of the widest cell, by column
};

}  // namespace

std::string laid_out(std::vector<TextColumn> columns, std::vector<TextRow> rows, std::size_t keys) {
  constexpr std::size_t max_for_keys = 60;
  Layout layout(columns, rows, keys);
  if (layout.width(0, columns.size()) > line_width) layout.break_heads();
  if (layout.width(0, columns.size()) <= line_width || layout.width(0, keys) <= max_for_keys) {
    return layout.str();
  }
  columns.insert(columns.begin(), {.head = "#", .align = TextColumn::Align::right, .group = -1});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].cells.insert(rows[i].cells.begin(), fmt::format("{}", i + 1));
  }
  return Layout(std::move(columns), std::move(rows), 1).str();
}

std::string wrapped(const std::string& text, std::size_t width) {
  std::string out;
  std::istringstream paragraphs(text);
  for (std::string paragraph; std::getline(paragraphs, paragraph);) {
    if (!out.empty()) out += '\n';
    std::size_t line = 0;
    std::istringstream words(paragraph);
    for (std::string word; words >> word;) {
      const bool fits = line + 1 + word.size() <= width;
      if (line > 0) out += fits ? ' ' : '\n';
      line = line == 0 || !fits ? word.size() : line + 1 + word.size();
      out += word;
    }
  }
  return out;
}

}  // namespace paceline
