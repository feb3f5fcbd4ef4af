#include "record/console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

namespace paceline {

namespace {

std::string text_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell == nullptr ? "" : to_text(cell->value);
}

bool is_ok(const Row& row) { return text_in(row, "status") == "ok"; }

bool all_whole(const std::vector<double>& numbers) {
  constexpr double most = 1e15;
  return std::all_of(numbers.begin(), numbers.end(), [](double n) {
    return std::isnan(n) || (std::trunc(n) == n && std::abs(n) < most);
  });
}

struct CellTexts {
  std::string head;
  TextTable::Align align = TextTable::Align::right;
  std::function<std::string(const Row&)> text;
};

CellTexts number_column(const TableColumn& column, const std::vector<Row>& rows) {
  const std::string& name = column.names.front();
  const std::string& unit_from = column.unit_from.empty() ? name : column.unit_from;
  const std::vector<double> numbers = numbers_in(rows, unit_from);
  std::string unit;
  bool is_integer = false;
  for (const Row& row : rows) {
    const Cell* cell = find_column(row, unit_from);
    if (cell == nullptr) continue;
    unit = cell->unit;
    is_integer = is_integer || std::holds_alternative<std::int64_t>(cell->value);
  }
  const DisplayUnit display = display_unit_for(numbers, unit);
  const auto number = [](const Row& row, const std::string& of) {
    return numbers_in({row}, of).front();
  };
  CellTexts cells{.head = head_for(column.head, unit, display), .text = {}};
  if (!column.format.empty()) {
    cells.head = column.head;
    cells.text = [name, format = column.format](const Row& row) {
      const Cell* cell = find_column(row, name);
      if (cell == nullptr) return std::string("-");
      const double n = number_of(cell->value);
      return std::isnan(n) ? std::string("nan") : fmt::format(fmt::runtime(format), n);
    };
  } else if (column.names.size() == 2) {
    cells.head = column.head;
    cells.text = [=](const Row& row) {
      return display.interval_text(number(row, column.names[0]), number(row, column.names[1]));
    };
  } else if ((unit.empty() || is_integer) && display.divisor == 1 && all_whole(numbers)) {
    cells.text = [=](const Row& row) {
      const double n = number(row, name);
      return std::isnan(n) ? "-" : fmt::format("{:.0f}", n);
    };
  } else {
    cells.text = [=](const Row& row) { return display.text(number(row, name)); };
  }
  return cells;
}

CellTexts cell_texts(const TableColumn& column, const std::vector<Row>& rows) {
  const std::string& name = column.names.front();
  const bool is_text = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    const Cell* cell = find_column(row, name);
    return cell != nullptr && std::holds_alternative<std::string>(cell->value);
  });
  if (!is_text) return number_column(column, rows);
  return {.head = column.head, .align = TextTable::Align::left, .text = [name](const Row& row) {
            return text_in(row, name);
          }};
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_table(const std::vector<Row>& rows, std::vector<std::string> names,
                      const std::vector<TableGroup>& groups) {
  std::erase_if(names, [&](const std::string& name) {
    return std::none_of(rows.begin(), rows.end(),
                        [&](const Row& row) { return find_column(row, name) != nullptr; });
  });
  const auto add = [&](const std::string& name) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  };
  add("status");
  add("reason");
  for (const TableGroup& group : groups) {
    for (const TableColumn& column : group) {
      for (const std::string& name : column.names) add(name);
    }
  }
  std::string out = fmt::format("{}\n", fmt::join(names, ","));
  for (const Row& row : rows) {
    std::vector<std::string> fields;
    for (const std::string& name : names) {
      const Cell* cell = find_column(row, name);
      const auto* real = cell == nullptr ? nullptr : std::get_if<double>(&cell->value);
      const bool missing = cell == nullptr || (real != nullptr && std::isnan(*real));
      fields.push_back(missing ? "" : csv_field(to_text(cell->value)));
    }
    out += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return out;
}

}  // namespace

std::vector<Row> ok_rows(const std::vector<Row>& rows) {
  std::vector<Row> ok;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(ok), is_ok);
  return ok;
}

std::string short_reason(const std::string& status, const std::string& reason) {
  return status + ": " + reason.substr(0, reason.find(';'));
}

FactorTexts factors_of_row(const Row& row, const std::vector<std::string>& names) {
  // A file has NaN where a factor does not apply to the case; a case that was just measured lacks
  // the column.
  const auto applies = [&](const std::string& name) {
    const Cell* cell = find_column(row, name);
    const double* number = cell == nullptr ? nullptr : std::get_if<double>(&cell->value);
    return number == nullptr || !std::isnan(*number);
  };
  FactorTexts factors;
  for (const std::string& name : names) {
    factors.emplace_back(name, applies(name) ? text_in(row, name) : "");
  }
  return factors;
}

std::string console_table(const std::vector<Row>& rows,
                          const std::vector<std::string>& factor_names,
                          const std::vector<ShownColumn>& shown, const TableOptions& options) {
  if (rows.empty()) return "";
  const std::vector<Row> ok = ok_rows(rows);
  const std::vector<TableGroup> groups = table_groups(ok, shown, options);
  if (options.format == TableFormat::csv) return csv_table(rows, factor_names, groups);
  std::vector<FactorTexts> factors;
  for (const Row& row : rows) factors.push_back(factors_of_row(row, factor_names));
  TextTable table(factors);
  std::vector<CellTexts> columns;
  for (const TableGroup& group : groups) {
    table.begin_group();
    for (const TableColumn& column : group) {
      if (table.has_factor_column(column.names.front())) continue;
      columns.push_back(cell_texts(column, ok));
      table.column(columns.back().head, columns.back().align);
    }
  }
  for (const Row& row : rows) {
    if (!is_ok(row)) {
      table.row({}, short_reason(text_in(row, "status"), text_in(row, "reason")));
      continue;
    }
    std::vector<std::string> texts;
    for (const CellTexts& column : columns) texts.push_back(column.text(row));
    table.row(std::move(texts));
  }
  return options.format == TableFormat::md ? table.markdown() : table.str();
}

std::string closing_table(const Table& table, const std::vector<Row>& rows,
                          const std::vector<std::string>& factor_names, TableFormat format) {
  const auto is_measured = [](const Column& column) {
    return std::holds_alternative<std::vector<double>>(column.data);
  };
  const auto measured = std::find_if(table.columns.begin(), table.columns.end(), is_measured);
  const std::size_t count = table.columns.empty() ? 0 : length_of(table.columns.front());
  std::vector<FactorTexts> factors(count);
  std::vector<std::vector<std::string>> texts(count);
  for (auto column = table.columns.begin(); column != measured; ++column) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::string text = to_text(value_at(*column, i));
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const Row& r) {
        return column->name == "case" && text_in(r, "case") == text;
      });
      const FactorTexts of_row = row == rows.end()
                                     ? FactorTexts{{column->name, text.empty() ? "-" : text}}
                                     : factors_of_row(*row, factor_names);
      factors[i].insert(factors[i].end(), of_row.begin(), of_row.end());
    }
  }
  const auto shows_factor = [&](const std::string& name) {
    return std::any_of(factors.begin(), factors.end(), [&](const FactorTexts& row) {
      return std::any_of(row.begin(), row.end(), [&](const auto& f) { return f.first == name; });
    });
  };
  TextTable shown(factors);
  for (auto column = measured; column != table.columns.end(); ++column) {
    if (shows_factor(column->name)) continue;
    std::vector<double> numbers;
    for (std::size_t i = 0; i < count; ++i) numbers.push_back(number_of(value_at(*column, i)));
    const DisplayUnit display =
        is_measured(*column) ? display_unit_for(numbers, column->unit) : DisplayUnit{};
    const bool text = std::holds_alternative<std::vector<std::string>>(column->data);
    shown.column(
        is_measured(*column) ? head_for(column->name, column->unit, display) : column->name,
        text ? TextTable::Align::left : TextTable::Align::right);
    for (std::size_t i = 0; i < count; ++i) {
      texts[i].push_back(is_measured(*column) ? display.text(numbers[i])
                                              : to_text(value_at(*column, i)));
    }
  }
  for (std::vector<std::string>& row : texts) shown.row(std::move(row));
  return format == TableFormat::md ? shown.markdown() : shown.str();
}

std::string json_line(const Row& row) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const Cell& cell : row) {
    // nlohmann writes NaN and infinities as null.
    std::visit([&](const auto& value) { line[cell.name] = value; }, cell.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace paceline
