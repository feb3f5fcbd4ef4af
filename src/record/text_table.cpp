#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>

#include "core/text.h"
#include "record/console.h"

namespace paceline {

namespace {

using Words = std::vector<std::string>;

constexpr std::size_t gap = 2;  // between columns

std::size_t widest(const Words& texts) {
  std::size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  return width;
}

bool is_number_or_missing(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return text.empty() || text == "-" || (error == std::errc{} && stop == end);
}

// "communication_exposed [ms]" -> "communication", "exposed", "[ms]": lines as wide as the longest
// word or the column's cells, whichever is wider.
Words broken_head(const TextColumn& column) {
  std::string head = column.head;
  std::replace(head.begin(), head.end(), '_', ' ');
  const Words words = split(head, ' ');
  return split(filled(words, std::max(widest(column.cells), widest(words))), '\n');
}

// The column in lines of equal width, of which its head has `of_head`.
Words printed(const TextColumn& column, const Words& head, std::size_t of_head) {
  Words lines(of_head - head.size());
  lines.insert(lines.end(), head.begin(), head.end());
  for (const std::string& cell : column.cells) lines.push_back(cell.empty() ? "-" : cell);
  const std::size_t width = widest(lines);
  for (std::string& line : lines) {
    line.insert(column.right ? 0 : line.size(), std::string(width - line.size(), ' '));
  }
  return lines;
}

}  // namespace

std::string factors_line(const FactorTexts& factors, std::size_t width) {
  Words words;
  for (const auto& [name, text] : factors) words.push_back(fmt::format("{} {},", name, text));
  if (!words.empty()) words.back().pop_back();
  return filled(words, width);
}

FactorColumns::FactorColumns(const std::vector<FactorTexts>& rows) {
  Words all;
  for (const FactorTexts& row : rows) {
    for (const auto& [name, _] : row) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
  }
  for (const std::string& name : all) {
    Words of_rows;
    for (const FactorTexts& row : rows) {
      const auto it = std::ranges::find(row, name, &FactorTexts::value_type::first);
      of_rows.push_back(it == row.end() ? "" : it->second);
    }
    std::set<std::string> distinct(of_rows.begin(), of_rows.end());
    const bool all_have_it = distinct.erase("") == 0;
    if (distinct.size() == 1) {
      same.emplace_back(name, *distinct.begin() + (all_have_it ? "" : " where applicable"));
    } else if (!distinct.empty()) {
      names.push_back(name);
      texts.push_back(std::move(of_rows));
    }
  }
}

std::string text_table(const std::vector<FactorTexts>& factors, std::vector<TextColumn> columns,
                       const std::vector<std::string>& tails, std::size_t width) {
  const FactorColumns varying(factors);
  const std::size_t keys = varying.names.size();
  for (std::size_t i = keys; i-- > 0;) {
    const Words& texts = varying.texts[i];
    const bool numbers = std::all_of(texts.begin(), texts.end(), is_number_or_missing);
    columns.insert(columns.begin(), {varying.names[i], numbers, texts});
  }
  std::size_t sum = 0;
  for (const TextColumn& c : columns) sum += std::max(c.head.size(), widest(c.cells)) + gap;
  std::vector<Words> heads;
  std::size_t of_head = 1;  // lines
  for (const TextColumn& column : columns) {
    heads.push_back(sum > width + gap ? broken_head(column) : Words{column.head});
    of_head = std::max(of_head, heads.back().size());
  }
  std::vector<Words> lines;  // by column
  for (std::size_t i = 0; i < columns.size(); ++i) {
    lines.push_back(printed(columns[i], heads[i], of_head));
  }
  std::string out = factors_line(varying.same, width) + (varying.same.empty() ? "" : "\n");
  std::size_t next = keys;
  for (bool first = true; first || next < columns.size(); first = false) {
    std::vector<std::size_t> shown(keys);
    std::iota(shown.begin(), shown.end(), 0);
    std::size_t used = 0;
    for (const std::size_t i : shown) used += lines[i].front().size() + gap;
    while (next < columns.size() &&
           (shown.size() == keys || used + lines[next].front().size() <= width)) {
      used += lines[next].front().size() + gap;
      shown.push_back(next++);
    }
    if (!first) out += '\n';
    for (std::size_t n = 0; n < of_head + tails.size(); ++n) {
      const std::string tail = n < of_head || !first ? "" : tails[n - of_head];
      std::string line;
      for (const std::size_t i : shown) {
        if (!tail.empty() && columns[i].cells[n - of_head].empty() && i >= keys) break;
        line += lines[i][n] + std::string(gap, ' ');
      }
      line += tail;
      line.erase(line.find_last_not_of(' ') + 1);
      if (!line.empty()) out += line + '\n';
    }
  }
  return out;
}

}  // namespace paceline
