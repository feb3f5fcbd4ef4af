#include "record/case_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "measure/statistics.h"
#include "record/descriptions.h"
#include "record/environment.h"

namespace paceline {

namespace {

// Files hold flags in tables as 0 and 1.
Value without_flag(const Value& value) {
  const auto* flag = std::get_if<bool>(&value);
  return flag == nullptr ? value : Value(std::int64_t{*flag});
}

// The parts that add up to the headline's median and mean.
void add_parts(Row& row, const std::vector<PhaseSamples>& samples) {
  std::vector<std::string> names;
  std::vector<const RankSamples*> phases;
  for (const PhaseSamples& phase : samples) {
    if (!phase.is_part) continue;
    names.push_back(phase.phase);
    phases.push_back(&phase.measured);
  }
  if (names.empty()) return;
  names.emplace_back("rest");
  const std::vector<HeadlinePart> parts = headline_parts(phases, samples.back().measured);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    row.push_back({names[i] + "_median_part_s", parts[i].of_median});
    row.push_back({names[i] + "_mean_part_s", parts[i].of_mean});
  }
}

// An empty column of the type of this value.
decltype(Column::data) data_for(const Value& value) {
  if (std::holds_alternative<std::string>(value)) return std::vector<std::string>{};
  if (std::holds_alternative<double>(value)) return std::vector<double>{};
  return std::vector<std::int64_t>{};
}

void append(Column& column, const Value& value) {
  if (auto* integers = std::get_if<std::vector<std::int64_t>>(&column.data)) {
    integers->push_back(std::get<std::int64_t>(value));
  } else if (auto* reals = std::get_if<std::vector<double>>(&column.data)) {
    reals->push_back(number_of(value));
  } else {
    std::get<std::vector<std::string>>(column.data).push_back(to_text(value));
  }
}

// The union of the columns of all tables, without values, each of a type that holds all its values.
// A column that earlier tables lack is inserted after its predecessor, so that related columns stay
// together.
std::vector<Column> union_of(const std::vector<std::vector<Column>>& tables) {
  std::vector<Column> all;
  for (const std::vector<Column>& table : tables) {
    auto next = all.begin();
    for (const Column& column : table) {
      auto at = std::ranges::find(all, column.name, &Column::name);
      if (at == all.end()) at = all.insert(next, {column.name, column.unit, {}});
      if (at->description.empty()) at->description = column.description;
      if (at->unit.empty()) at->unit = column.unit;
      const auto take_type = [&]<class T>(const std::vector<T>&) { at->data = std::vector<T>{}; };
      if (at->data.index() < column.data.index()) std::visit(take_type, column.data);
      next = at + 1;
    }
  }
  for (Column& column : all) {
    const auto lacks_it = [&](const auto& table) { return !find_column(table, column.name); };
    const bool gaps = std::any_of(tables.begin(), tables.end(), lacks_it);
    if (gaps && column.data.index() == 0) column.data = std::vector<double>{};
  }
  return all;
}

}  // namespace

std::size_t length_of(const Column& column) {
  return std::visit([](const auto& data) { return data.size(); }, column.data);
}

Value value_at(const Column& column, std::size_t row) {
  return std::visit([&](const auto& data) { return Value(data.at(row)); }, column.data);
}

Row row_of(const std::vector<Column>& columns, std::size_t row) {
  Row cells;
  for (const Column& c : columns) cells.push_back({c.name, value_at(c, row), c.unit});
  return cells;
}

std::vector<Column> row_alone(const std::vector<Column>& columns, std::size_t row) {
  const auto one = [&](const auto& data) -> decltype(Column::data) {
    return std::decay_t<decltype(data)>{data.at(row)};
  };
  std::vector<Column> alone;
  for (const Column& c : columns) {
    alone.push_back({c.name, c.unit, std::visit(one, c.data), c.description});
  }
  return alone;
}

double number_of(const Value& value) {
  if (std::holds_alternative<std::string>(value)) return std::numeric_limits<double>::quiet_NaN();
  const auto* real = std::get_if<double>(&value);
  return real ? *real : static_cast<double>(std::get<std::int64_t>(without_flag(value)));
}

Row summary_row(const CaseRecord& record, const std::string& run) {
  Row row = {{"case", record.id}};
  if (!run.empty()) row.push_back({"run", run});
  for (const auto& [name, value] : record.factors.factors()) row.push_back({name, value});
  row.push_back({"status", std::string(name_of(record.status))});
  row.push_back({"reason", record.reason});
  for (const auto& [name, value] : slurm_job()) row.push_back({name, value});
  for (const PhaseSamples& samples : record.samples) {
    const Summary s = summarize(max_over_ranks(samples.measured));
    for (const auto& [name, figure] : summary_figures) {
      row.push_back({fmt::format("{}_{}_s", samples.phase, name), s.*figure});
    }
  }
  if (!record.samples.empty() && !max_over_ranks(record.samples.back().measured).empty()) {
    row.push_back({"slowest_rank", std::int64_t{slowest_rank(record.samples.back().measured)}});
  }
  add_parts(row, record.samples);
  if (!record.samples.empty()) {
    row.push_back({"warmup_reason", record.warmup_reason});
    row.push_back({"stop_reason", record.stop_reason});
    row.push_back({"warnings", kinds_text(record.warnings)});
  }
  row.insert(row.end(), record.summary.begin(), record.summary.end());
  for (Cell& cell : row) {
    if (cell.unit.empty()) cell.unit = unit_of("summary", cell.name);
  }
  return row;
}

std::string json_line(const Row& row) {
  nlohmann::ordered_json line = nlohmann::ordered_json::object();
  for (const Cell& cell : row) {
    // nlohmann writes NaN and infinities as null.
    std::visit([&](const auto& value) { line[cell.name] = value; }, cell.value);
  }
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::vector<Column> concatenate(const std::vector<std::vector<Column>>& tables) {
  std::vector<Column> all = union_of(tables);
  for (Column& column : all) {
    for (const std::vector<Column>& table : tables) {
      if (table.empty()) continue;
      const Column* from = find_column(table, column.name);
      const std::size_t rows = length_of(from ? *from : table.front());
      for (std::size_t i = 0; i < rows; ++i) {
        append(column, from ? value_at(*from, i) : Value(std::string()));
      }
    }
  }
  return all;
}

void TableRows::add(const Row& row) {
  std::vector<Column>& columns = table_.columns;
  if (columns.empty()) {
    for (const Cell& cell : row) columns.push_back({cell.name, cell.unit, data_for(cell.value)});
    describe(table_.path, {}, columns);
  }
  if (row.size() != columns.size()) {
    throw InternalError("a row of " + table_.path + " has other columns than the first");
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    Column& column = columns[i];
    const auto& [name, value, _] = row[i];
    if (column.name != name || column.data.index() != data_for(value).index()) {
      throw InternalError(table_.path + ": column '" + column.name + "' has another name or type");
    }
    append(column, without_flag(value));
  }
}

}  // namespace paceline
