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

// What is shown behind the factors: the phases, and the columns that the experiment adds.
struct Contents {
  std::vector<std::string> phases;
  std::vector<const Column*> added;  // the first row's that has it
};

Contents contents_of(const std::vector<Row>& rows, const std::vector<std::string>& factor_names) {
  Contents contents;
  std::set<std::string> known(factor_names.begin(), factor_names.end());
  known.insert({"status", "reason", "slowest_rank"});
  for (const Row& row : rows) {
    // Before the status stand the case's name and all factors, shown or not.
    for (auto it = row.begin(); it != row.end() && it->name != "status"; ++it) {
      known.insert(it->name);
    }
  }
  constexpr std::string_view headline = "_median_s";
  for (const Row& row : rows) {
    for (const Column& column : row) {
      if (column.name.size() <= headline.size() || !column.name.ends_with(headline)) continue;
      const std::string phase = column.name.substr(0, column.name.size() - headline.size());
      if (find_column(row, phase + "_ci_low_s") == nullptr) continue;
      if (!known.insert(column.name).second) continue;
      contents.phases.push_back(phase);
      for (const char* name : {"ci_low", "ci_high", "mean", "std", "min", "max", "p95"}) {
        known.insert(phase + "_" + name + "_s");
      }
    }
  }
  for (const Row& row : rows) {
    for (const Column& column : row) {
      if (known.insert(column.name).second) contents.added.push_back(&column);
    }
  }
  return contents;
}

using Cell = std::function<std::string(const Row&)>;

void add_phase(TextTable& table, std::vector<Cell>& cells, const std::vector<Row>& rows,
               const std::string& phase) {
  const std::string median = phase + "_median_s";
  const Scale scale = scale_for(numbers_in(rows, median), "s");
  table.column(head_for(phase, "s", scale), TextTable::Align::right);
  cells.emplace_back([=](const Row& row) { return scale.text(number_in(row, median)); });
  table.column("95% interval", TextTable::Align::right);
  cells.emplace_back([=](const Row& row) {
    return scale.interval_text(number_in(row, phase + "_ci_low_s"),
                               number_in(row, phase + "_ci_high_s"));
  });
}

void add_column(TextTable& table, std::vector<Cell>& cells, const std::vector<Row>& rows,
                const Column& column) {
  const std::string name = column.name;
  if (std::holds_alternative<std::vector<std::string>>(column.data)) {
    table.column(name, TextTable::Align::left);
    cells.emplace_back([=](const Row& row) { return text_in(row, name); });
    return;
  }
  const Scale scale = scale_for(numbers_in(rows, name), column.unit);
  const bool whole =
      scale.divisor == 1 && std::holds_alternative<std::vector<std::int64_t>>(column.data);
  table.column(head_for(name, column.unit, scale), TextTable::Align::right);
  cells.emplace_back([=](const Row& row) {
    const double number = number_in(row, name);
    return whole && std::isfinite(number) ? text_in(row, name) : scale.text(number);
  });
}

}  // namespace

std::string console_table(const std::vector<std::vector<Column>>& rows,
                          const std::vector<std::string>& factor_names) {
  if (rows.empty()) return "";
  std::vector<FactorTexts> factors;
  for (const Row& row : rows) {
    FactorTexts texts;
    for (const std::string& name : factor_names) {
      if (find_column(row, name) != nullptr) texts.emplace_back(name, text_in(row, name));
    }
    factors.push_back(std::move(texts));
  }
  const FactorSplit split = split_factors(factors);

  TextTable table;
  std::vector<Cell> cells;
  add_factor_columns(table, split.varying, factors);
  const Contents contents = contents_of(rows, factor_names);
  for (const std::string& phase : contents.phases) add_phase(table, cells, rows, phase);
  for (const Column* column : contents.added) add_column(table, cells, rows, *column);

  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::vector<std::string> texts;
    for (const std::string& name : split.varying) texts.push_back(factor_text(factors[i], name));
    const std::string status = text_in(rows[i], "status");
    if (status != "ok") {
      table.row(std::move(texts), status + ": " + text_in(rows[i], "reason"));
      continue;
    }
    for (const Cell& cell : cells) texts.push_back(cell(rows[i]));
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

}  // namespace paceline
