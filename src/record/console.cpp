#include "record/console.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "record/text_table.h"

namespace paceline {

namespace {

std::string text_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell == nullptr ? "" : to_text(cell->value);
}

// NaN where a row lacks the column, and for text.
double number_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell == nullptr ? std::nan("") : number_of(cell->value);
}

std::vector<double> numbers_in(const std::vector<Row>& rows, std::string_view name) {
  std::vector<double> numbers;
  for (const Row& row : rows) numbers.push_back(number_in(row, name));
  return numbers;
}

// The phases, the headline last: those of the row that has the most (a step without backward has
// some of them).
std::vector<std::string> phases_of(const std::vector<Row>& rows) {
  constexpr std::string_view ending = "_median_s";
  std::vector<std::string> most;
  for (const Row& row : rows) {
    std::vector<std::string> phases;
    for (const auto& [name, value, unit] : row) {
      if (name.ends_with(ending)) phases.push_back(name.substr(0, name.size() - ending.size()));
    }
    if (phases.size() > most.size()) most = std::move(phases);
  }
  return most;
}

using CellText = std::function<std::string(const Row&)>;

void add_phase(TextTable& table, std::vector<CellText>& cells, const std::vector<Row>& rows,
               const std::string& phase, bool headline) {
  const std::string median = phase + "_median_s";
  const Scale scale = scale_for(numbers_in(rows, median), "s");
  table.column(head_for(phase, "s", scale), TextTable::Align::right);
  cells.emplace_back([=](const Row& row) { return scale.text(number_in(row, median)); });
  if (!headline) return;
  table.column("95% interval", TextTable::Align::right);
  cells.emplace_back([=](const Row& row) {
    return scale.interval_text(number_in(row, phase + "_ci_low_s"),
                               number_in(row, phase + "_ci_high_s"));
  });
}

void add_column(TextTable& table, std::vector<CellText>& cells, const std::vector<Row>& rows,
                const ShownColumn& shown) {
  const std::vector<double> numbers = numbers_in(rows, shown.name);
  const auto finite = [](double number) { return std::isfinite(number); };
  if (std::none_of(numbers.begin(), numbers.end(), finite)) return;
  std::string unit;
  bool counts = false;
  for (const Row& row : rows) {
    const Cell* cell = find_column(row, shown.name);
    if (cell == nullptr) continue;
    unit = cell->unit;
    counts = std::holds_alternative<std::int64_t>(cell->value);
  }
  const Scale scale = scale_for(numbers, unit);
  const bool whole = counts && scale.divisor == 1;
  table.column(head_for(shown.head, unit, scale), TextTable::Align::right);
  cells.emplace_back([scale, whole, name = shown.name](const Row& row) {
    return whole ? text_in(row, name) : scale.text(number_in(row, name));
  });
}

}  // namespace

std::string short_reason(const std::string& status, const std::string& reason) {
  return status + ": " + reason.substr(0, reason.find(';'));
}

std::string console_table(const std::vector<Row>& rows,
                          const std::vector<std::string>& factor_names,
                          const std::vector<ShownColumn>& columns) {
  if (rows.empty()) return "";
  std::vector<FactorTexts> factors(rows.size());
  for (const std::string& name : factor_names) {
    const auto has_it = [&](const Row& row) { return find_column(row, name) != nullptr; };
    if (std::none_of(rows.begin(), rows.end(), has_it)) continue;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      factors[i].emplace_back(name, text_in(rows[i], name));
    }
  }
  TextTable table(factors);
  std::vector<CellText> cells;
  const std::vector<std::string> phases = phases_of(rows);
  for (const std::string& phase : phases)
    add_phase(table, cells, rows, phase, phase == phases.back());
  for (const ShownColumn& column : columns) add_column(table, cells, rows, column);

  for (const Row& row : rows) {
    const std::string status = text_in(row, "status");
    if (status != "ok") {
      table.row({}, short_reason(status, text_in(row, "reason")));
      continue;
    }
    std::vector<std::string> texts;
    for (const CellText& cell : cells) texts.push_back(cell(row));
    table.row(std::move(texts));
  }
  return table.str();
}

std::string json_line(const Row& row) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const Cell& cell : row) {
    // nlohmann writes NaN and infinities as null.
    std::visit([&](const auto& value) { line[cell.name] = value; }, cell.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string columns_text(const std::vector<Column>& columns) {
  TextTable table;
  std::vector<std::vector<std::string>> rows(columns.empty() ? 0 : length_of(columns.front()));
  for (const Column& column : columns) {
    const auto* reals = std::get_if<std::vector<double>>(&column.data);
    const bool text = std::holds_alternative<std::vector<std::string>>(column.data);
    const Scale scale = reals ? scale_for(*reals, column.unit) : Scale{};
    table.column(reals ? head_for(column.name, column.unit, scale) : column.name,
                 text ? TextTable::Align::left : TextTable::Align::right);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Value value = value_at(column, i);
      rows[i].push_back(reals ? scale.text(number_of(value)) : to_text(value));
    }
  }
  for (std::vector<std::string>& row : rows) table.row(std::move(row));
  return table.str();
}

}  // namespace paceline
