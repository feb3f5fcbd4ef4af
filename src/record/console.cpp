#include "record/console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/units.h"

namespace paceline {

namespace {

// Empty for NaN, which a file has where a factor does not apply to a case.
std::string text_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell == nullptr || cell->value != cell->value ? "" : to_text(cell->value);
}

// NaN for text and where the row lacks the column.
double number_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell ? number_of(cell->value) : std::nan("");
}

bool is_ok(const Row& row) {
  const std::string status = text_in(row, "status");
  return status.empty() || status == "ok";
}

// Whether any row has a text or a number to show in this column.
bool has_any(const std::vector<Row>& rows, const ShownColumn& column) {
  return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    const bool has_cell = find_column(row, column.name) != nullptr;
    return column.format.empty() ? !text_in(row, column.name).empty() : has_cell;
  });
}

// The times that rows have.
struct Times {
  explicit Times(const std::vector<Row>& rows) {
    constexpr std::string_view ending = "_median_s";
    for (const Row& row : rows) {
      std::vector<std::string> of_row;
      for (const Cell& cell : row) {
        if (!cell.name.ends_with(ending)) continue;
        of_row.push_back(cell.name.substr(0, cell.name.size() - ending.size()));
      }
      if (of_row.size() > phases.size()) phases = std::move(of_row);
      several_ranks = several_ranks || number_in(row, "ranks") > 1;
    }
    if (phases.empty()) return;
    headline = phases.back();
    phases.pop_back();
    for (const std::string& phase : phases) {
      if (has_any(rows, {phase + "_median_part_s", ""})) parts.push_back(phase);
    }
  }

  std::string headline;
  std::vector<std::string> phases;  // the others, of the row that has the most
  std::vector<std::string> parts;   // those that add up to the headline, together with "rest"
  bool several_ranks = false;
};

std::vector<ShownColumn> columns_of(const std::vector<Row>& rows,
                                    const std::vector<ShownColumn>& shown) {
  const Times times(rows);
  std::vector<ShownColumn> columns;
  const auto add = [&](const std::string& head, const std::string& name) {
    columns.push_back({name, head, "", times.headline + "_median_s"});
  };
  if (!times.headline.empty()) {
    add(times.headline, times.headline + "_median_s");
    add("95% interval", times.headline + "_ci_low_s");
    columns.back().high = times.headline + "_ci_high_s";
  }
  for (const std::string& part : times.parts) add(part, part + "_median_part_s");
  if (!times.parts.empty()) add("rest", "rest_median_part_s");
  for (const std::string& phase : times.phases) {
    const bool is_part = std::count(times.parts.begin(), times.parts.end(), phase) > 0;
    const bool maximum = times.several_ranks && !times.parts.empty();
    if (maximum || !is_part) add((maximum ? "max " : "") + phase, phase + "_median_s");
  }
  std::copy_if(shown.begin(), shown.end(), std::back_inserter(columns),
               [&](const ShownColumn& column) { return has_any(rows, column); });
  return columns;
}

// A column head: "peak_bytes" in MB -> "peak [MB]".
std::string head_for(std::string_view name, std::string_view unit, const DisplayUnit& display) {
  std::string suffix = fmt::format("_{}", unit);
  if (const std::size_t per = suffix.find('/'); per != std::string::npos) {
    suffix.replace(per, 1, "_per_");
  }
  if (!unit.empty() && name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return display.unit.empty() ? std::string(name) : fmt::format("{} [{}]", name, display.unit);
}

// "8.119 .. 8.127"; "-" if there is no interval.
std::string interval_text(double low, double high, const DisplayUnit& display) {
  const bool none = std::isnan(low) || std::isnan(high);
  return none ? "-" : fmt::format("{} .. {}", display.text(low), display.text(high));
}

// The column of the rows with status ok; the cells of other rows are empty.
TextColumn text_column(const std::vector<Row>& rows, const ShownColumn& column) {
  std::string unit;
  std::vector<double> numbers;
  bool is_text = false;
  bool is_integer = false;
  for (const Row& row : rows) {
    const Cell* cell = find_column(row, column.unit_from.empty() ? column.name : column.unit_from);
    if (cell == nullptr || !is_ok(row)) continue;
    unit = cell->unit;
    numbers.push_back(number_of(cell->value));
    is_text = is_text || std::holds_alternative<std::string>(cell->value);
    is_integer = is_integer || std::holds_alternative<std::int64_t>(cell->value);
  }
  const DisplayUnit display = display_unit_for(numbers, unit);
  const auto is_whole = [](double n) { return std::isnan(n) || std::trunc(n) == n; };
  const bool whole = (is_integer || unit.empty()) && display.divisor == 1 &&
                     std::all_of(numbers.begin(), numbers.end(), is_whole);
  const auto text_of = [&](const Row& row) {
    const double n = number_in(row, column.name);
    if (is_text) return text_in(row, column.name);
    if (!column.high.empty()) return interval_text(n, number_in(row, column.high), display);
    if (std::isnan(n)) return std::string(column.format.empty() ? "" : "nan");
    if (!column.format.empty()) return fmt::format(fmt::runtime(column.format), n);
    return whole ? fmt::format("{:.0f}", n) : display.text(n);
  };
  const bool has_unit = !is_text && column.format.empty() && column.high.empty();
  TextColumn shown{has_unit ? head_for(column.head, unit, display) : column.head, !is_text};
  for (const Row& row : rows) {
    const bool has_cell = is_ok(row) && find_column(row, column.name) != nullptr;
    shown.cells.push_back(has_cell ? text_of(row) : "");
  }
  return shown;
}

std::string table_text(const std::vector<FactorTexts>& factors,
                       const std::vector<ShownColumn>& columns, const std::vector<Row>& rows,
                       std::size_t width) {
  std::vector<TextColumn> shown;
  for (const ShownColumn& column : columns) shown.push_back(text_column(rows, column));
  std::vector<std::string> tails;
  for (const Row& row : rows) {
    tails.push_back(is_ok(row) ? "" : short_reason(text_in(row, "status"), text_in(row, "reason")));
  }
  return text_table(factors, shown, tails, width);
}

std::vector<FactorTexts> factors_of(const std::vector<Row>& rows,
                                    const std::vector<std::string>& names) {
  std::vector<FactorTexts> factors(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& name : names) factors[i].emplace_back(name, text_in(rows[i], name));
  }
  return factors;
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

std::string console_table(const std::vector<Row>& rows,
                          const std::vector<std::string>& factor_names,
                          const std::vector<ShownColumn>& shown, std::size_t width) {
  return table_text(factors_of(rows, factor_names), columns_of(ok_rows(rows), shown), rows, width);
}

std::string times_note(const std::vector<Row>& rows) {
  const Times times(rows);
  if (times.headline.empty()) return "";
  const std::string median = fmt::format("median over repetitions{}",
                                         times.several_ranks ? " of the maximum over ranks" : "");
  if (times.parts.empty()) return fmt::format("times: {}.", median);
  return fmt::format(
      "{0}: {1}. {2}, rest: {3}in the repetition of the median (of an even number, averaged over "
      "the middle two); they add up to {0}, and rest is what no phase covers.{4}",
      times.headline, median, fmt::join(times.parts, ", "),
      times.several_ranks ? "on the rank of that maximum, " : "",
      times.several_ranks ? fmt::format(" max: {} of each phase by itself.", median) : "");
}

std::string closing_table(const Table& table, const std::vector<Row>& rows,
                          const std::vector<std::string>& factor_names, std::size_t width) {
  const std::vector<FactorTexts> of_cases = factors_of(rows, factor_names);
  const std::vector<std::string> varying = FactorColumns(of_cases).names;
  const auto is_measured = [](const Column& column) {
    return std::holds_alternative<std::vector<double>>(column.data);
  };
  const auto measured = std::find_if(table.columns.begin(), table.columns.end(), is_measured);
  std::vector<Row> shown;
  std::vector<FactorTexts> factors;
  for (std::size_t i = 0; !table.columns.empty() && i < length_of(table.columns.front()); ++i) {
    shown.push_back(row_of(table.columns, i));
    FactorTexts& texts = factors.emplace_back();
    for (auto column = table.columns.begin(); column != measured; ++column) {
      const std::string text = to_text(value_at(*column, i));
      const auto of_case = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
        return column->name == "case" && text_in(row, "case") == text;
      });
      if (of_case == rows.end()) {
        texts.emplace_back(column->name, text.empty() ? "-" : text);
      } else {
        for (const std::string& name : varying) texts.emplace_back(name, text_in(*of_case, name));
      }
    }
  }
  std::vector<ShownColumn> columns;
  for (auto column = measured; column != table.columns.end(); ++column) {
    const auto factors_of_name = std::count(factor_names.begin(), factor_names.end(), column->name);
    if (factors_of_name == 0) columns.push_back({column->name, column->name});
  }
  return table_text(factors, columns, shown, width);
}

}  // namespace paceline
