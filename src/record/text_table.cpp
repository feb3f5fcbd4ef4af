#include "record/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace paceline {

namespace {

// The text of one factor; "" if the row lacks it.
std::string text_of(const FactorTexts& row, std::string_view name) {
  const auto it =
      std::find_if(row.begin(), row.end(), [&](const auto& f) { return f.first == name; });
  return it == row.end() ? "" : it->second;
}

// The text that all rows with one have in common; null if they differ.
const std::string* only_text(const std::vector<std::string>& texts) {
  const std::string* one = &texts.front();
  for (const std::string& text : texts) {
    if (one->empty()) one = &text;
    if (!text.empty() && text != *one) return nullptr;
  }
  return one;
}

bool is_number_or_missing(const std::string& text) {
  if (text == "-") return true;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return text.empty() || (error == std::errc{} && end == text.data() + text.size());
}

std::string cell_of(const TextRow& row, std::size_t i) {
  if (i < row.cells.size()) return row.cells[i].empty() ? "-" : row.cells[i];
  return i == row.cells.size() ? row.tail : "";
}

// Escapes '|', which would end the cell.
std::string markdown_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string factors_line(const FactorTexts& factors) {
  constexpr std::size_t columns = 100;
  std::string out;
  for (const auto& [name, text] : factors) {
    const std::string piece = fmt::format("{} {}", name, text);
    const std::size_t line = out.size() - (out.rfind('\n') + 1);
    const std::size_t room = 2 + piece.size() + 1;  // ", " before it, "," after it
    if (!out.empty()) out += line + room > columns ? ",\n" : ", ";
    out += piece;
  }
  return out;
}

FactorColumns::FactorColumns(const std::vector<FactorTexts>& rows) : texts(rows.size()) {
  std::vector<std::string> all;
  for (const FactorTexts& row : rows) {
    for (const auto& [name, _] : row) {
      if (std::find(all.begin(), all.end(), name) == all.end()) all.push_back(name);
    }
  }
  for (const std::string& name : all) {
    std::vector<std::string> of_rows;
    for (const FactorTexts& row : rows) of_rows.push_back(text_of(row, name));
    if (const std::string* one = only_text(of_rows)) {
      if (one->empty()) continue;
      const bool all_have_it = std::find(of_rows.begin(), of_rows.end(), "") == of_rows.end();
      (all_have_it ? same : where_applicable).emplace_back(name, *one);
      continue;
    }
    names.push_back(name);
    for (std::size_t i = 0; i < rows.size(); ++i) texts[i].push_back(of_rows[i]);
  }
}

TextTable::TextTable(const std::vector<FactorTexts>& factors) : factors_(factors) {
  for (std::size_t i = 0; i < factors_.names.size(); ++i) {
    const auto is_number = [&](const auto& row) { return is_number_or_missing(row[i]); };
    const bool numbers = std::all_of(factors_.texts.begin(), factors_.texts.end(), is_number);
    column(factors_.names[i], numbers ? Align::right : Align::left);
  }
}

void TextTable::column(std::string head, Align align) {
  columns_.push_back({.head = std::move(head), .align = align, .group = group_});
}

bool TextTable::has_factor_column(std::string_view name) const {
  return std::find(factors_.names.begin(), factors_.names.end(), name) != factors_.names.end();
}

void TextTable::row(std::vector<std::string> cells, std::string tail) {
  if (!factors_.texts.empty()) {
    const std::vector<std::string>& factors = factors_.texts.at(rows_.size());
    cells.insert(cells.begin(), factors.begin(), factors.end());
  }
  rows_.push_back({.cells = std::move(cells), .tail = std::move(tail)});
}

std::string TextTable::str() const {
  return above("\n") + laid_out(columns_, rows_, factors_.names.size());
}

// The factors that have no column, each paragraph followed by `paragraph_end`.
std::string TextTable::above(std::string_view paragraph_end) const {
  std::string out;
  if (!factors_.same.empty())
    out += fmt::format("{}{}", factors_line(factors_.same), paragraph_end);
  if (factors_.where_applicable.empty()) return out;
  FactorTexts introduced = factors_.where_applicable;
  introduced.front().first.insert(0, "where applicable: ");
  return out + fmt::format("{}{}", factors_line(introduced), paragraph_end);
}

std::string TextTable::markdown() const {
  std::vector<TextColumn> columns = columns_;
  for (const TextRow& row : rows_) {  // a row's tail needs a column
    if (row.tail.empty() || row.cells.size() < columns.size()) continue;
    columns.push_back({.head = "status"});
  }
  std::string out;
  out += markdown_text(above("\n\n")) + '|';
  for (const TextColumn& column : columns) out += fmt::format(" {} |", markdown_text(column.head));
  out += "\n|";
  for (const TextColumn& column : columns) out += column.align == Align::right ? "---:|" : "---|";
  out += '\n';
  for (const TextRow& row : rows_) {
    out += '|';
    for (std::size_t i = 0; i < columns.size(); ++i) {
      out += fmt::format(" {} |", markdown_text(cell_of(row, i)));
    }
    out += '\n';
  }
  return out;
}

}  // namespace paceline
