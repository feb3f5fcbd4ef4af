#include "record/console.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "record/text_table.h"

namespace paceline {

namespace {

using Row = std::vector<Column>;

// The one value of a row's column.
Value value_of(const Column& column) {
  return std::visit([](const auto& data) { return Value(data.at(0)); }, column.data);
}

std::string text_in(const Row& row, std::string_view name) {
  const Column* column = find_column(row, name);
  return column == nullptr ? "" : to_text(value_of(*column));
}

// NaN where a row lacks the column, and for text.
double number_in(const Row& row, std::string_view name) {
  const Column* column = find_column(row, name);
  if (column == nullptr) return std::numeric_limits<double>::quiet_NaN();
  const Value value = value_of(*column);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  const auto* real = std::get_if<double>(&value);
  return real == nullptr ? std::numeric_limits<double>::quiet_NaN() : *real;
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
    for (const Column& column : row) {
      if (!column.name.ends_with(ending)) continue;
      phases.push_back(column.name.substr(0, column.name.size() - ending.size()));
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
    const Column* column = find_column(row, shown.name);
    if (column == nullptr) continue;
    unit = column->unit;
    counts = std::holds_alternative<std::vector<std::int64_t>>(column->data);
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

std::string console_table(const std::vector<std::vector<Column>>& rows,
                          const std::vector<std::string>& factor_names,
                          const std::vector<ShownColumn>& columns) {
  if (rows.empty()) return "";
  std::vector<FactorTexts> factors;
  for (const Row& row : rows) {
    FactorTexts texts;
    for (const std::string& name : factor_names) {
      const auto has_it = [&](const Row& r) { return find_column(r, name) != nullptr; };
      if (std::none_of(rows.begin(), rows.end(), has_it)) continue;
      texts.emplace_back(name, has_it(row) ? text_in(row, name) : "");
    }
    factors.push_back(std::move(texts));
  }
  const FactorSplit split = split_factors(factors);

  TextTable table;
  std::vector<CellText> cells;
  add_factor_columns(table, split.varying, factors);
  const std::vector<std::string> phases = phases_of(rows);
  for (const std::string& phase : phases)
    add_phase(table, cells, rows, phase, phase == phases.back());
  for (const ShownColumn& column : columns) add_column(table, cells, rows, column);

  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> texts;
    for (const std::string& name : split.varying) texts.push_back(factor_text(factors[i], name));
    const std::string status = text_in(rows[i], "status");
    if (status != "ok") {
      table.row(std::move(texts), short_reason(status, text_in(rows[i], "reason")));
      continue;
    }
    for (const CellText& cell : cells) texts.push_back(cell(rows[i]));
    table.row(std::move(texts));
  }
  return (split.constant.empty() ? "" : split.constant + "\n") + table.str();
}

std::string json_line(const std::vector<Column>& row) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const Column& column : row) {
    // nlohmann writes NaN and infinities as null.
    std::visit([&](const auto& data) { line[column.name] = data.at(0); }, column.data);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string columns_text(const std::vector<Column>& columns) {
  TextTable table;
  std::vector<std::vector<std::string>> rows(columns.empty() ? 0 : length_of(columns.front()));
  for (const Column& column : columns) {
    std::visit(
        [&]<class T>(const std::vector<T>& data) {
          if constexpr (std::is_same_v<T, double>) {
            const Scale scale = scale_for(data, column.unit);
            table.column(head_for(column.name, column.unit, scale), TextTable::Align::right);
            for (std::size_t i = 0; i < data.size(); ++i) rows[i].push_back(scale.text(data[i]));
          } else {
            constexpr bool text = std::is_same_v<T, std::string>;
            table.column(column.name, text ? TextTable::Align::left : TextTable::Align::right);
            for (std::size_t i = 0; i < data.size(); ++i) rows[i].push_back(to_text(data[i]));
          }
        },
        column.data);
  }
  for (std::vector<std::string>& row : rows) table.row(std::move(row));
  return table.str();
}

}  // namespace paceline
