#include "record/case_record.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <type_traits>
#include <unordered_map>

#include "core/error.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void add_statistics(std::vector<Column>& row, const std::string& phase, const Summary& s) {
  const auto add = [&](const char* name, double value) {
    row.push_back(column_of(phase + "_" + name + "_s", value, "s"));
  };
  add("median", s.median);
  add("ci_low", s.ci_low);
  add("ci_high", s.ci_high);
  add("mean", s.mean);
  add("std", s.std);
  add("min", s.min);
  add("max", s.max);
  add("p95", s.p95);
}

// The type that a column has once all tables stand below each other.
enum class Kind : std::uint8_t { integer, real, text };

Kind kind_of(const Column& column) { return static_cast<Kind>(column.data.index()); }

struct Merged {
  std::string name;
  std::string unit;
  Kind kind = Kind::integer;
  std::size_t tables = 0;  // that have it
};

// The columns of all tables. A table's column that is new goes behind the one it follows there, so
// that what belongs together stays together.
std::vector<Merged> union_of(const std::vector<std::vector<Column>>& tables) {
  std::vector<Merged> all;
  for (const std::vector<Column>& table : tables) {
    std::size_t next = 0;
    for (const Column& column : table) {
      auto at = std::find_if(all.begin(), all.end(),
                             [&](const Merged& m) { return m.name == column.name; });
      if (at == all.end()) {
        at = all.insert(all.begin() + static_cast<std::ptrdiff_t>(next),
                        {column.name, column.unit, kind_of(column), 0});
      }
      at->kind = std::max(at->kind, kind_of(column));
      ++at->tables;
      next = static_cast<std::size_t>(at - all.begin()) + 1;
    }
  }
  for (Merged& m : all) {
    if (m.tables < tables.size() && m.kind == Kind::integer) m.kind = Kind::real;
  }
  return all;
}

template <class To, class From>
To converted(const From& value) {
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, std::string>) {
    return to_text(Value(value));
  } else if constexpr (std::is_same_v<From, std::string>) {
    throw InternalError("text in a column of numbers");
  } else {
    return static_cast<To>(value);
  }
}

template <class T>
std::vector<T> stacked(const std::string& name, const T& gap,
                       const std::vector<std::vector<Column>>& tables) {
  std::vector<T> values;
  for (const std::vector<Column>& table : tables) {
    if (table.empty()) continue;
    const Column* column = find_column(table, name);
    if (column == nullptr) {
      values.insert(values.end(), length_of(table.front()), gap);
      continue;
    }
    const auto append = [&](const auto& data) {
      for (const auto& value : data) values.push_back(converted<T>(value));
    };
    std::visit(append, column->data);
  }
  return values;
}

}  // namespace

std::size_t length_of(const Column& column) {
  return std::visit([](const auto& data) { return data.size(); }, column.data);
}

const Column* find_column(const std::vector<Column>& columns, std::string_view name) {
  const auto it = std::find_if(columns.begin(), columns.end(),
                               [&](const Column& column) { return column.name == name; });
  return it == columns.end() ? nullptr : &*it;
}

Column column_of(std::string name, const Value& value, std::string unit) {
  Column column{std::move(name), std::move(unit), {}};
  if (const auto* text = std::get_if<std::string>(&value)) {
    column.data = std::vector<std::string>{*text};
  } else if (const auto* real = std::get_if<double>(&value)) {
    column.data = std::vector<double>{*real};
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    column.data = std::vector<std::int64_t>{*flag ? 1 : 0};
  } else {
    column.data = std::vector<std::int64_t>{std::get<std::int64_t>(value)};
  }
  return column;
}

std::vector<Column> summary_row(const CaseRecord& record) {
  std::vector<Column> row;
  row.push_back(column_of("case", record.id));
  for (const auto& [name, value] : record.factors.factors()) row.push_back(column_of(name, value));
  row.push_back(column_of("status", std::string(name_of(record.status))));
  row.push_back(column_of("reason", record.reason));
  for (const PhaseSamples& samples : record.samples) {
    add_statistics(row, samples.phase, summarize(max_over_ranks(samples.measured)));
  }
  if (!record.samples.empty() && !max_over_ranks(record.samples.back().measured).empty()) {
    const int slowest = slowest_rank(record.samples.back().measured);
    row.push_back(column_of("slowest_rank", static_cast<std::int64_t>(slowest)));
  }
  for (const Column& column : record.summary) {
    if (length_of(column) != 1) {
      throw InternalError("summary column '" + column.name + "' must hold one value");
    }
    row.push_back(column);
  }
  return row;
}

std::vector<Column> concatenate(const std::vector<std::vector<Column>>& tables) {
  std::vector<Column> out;
  for (const Merged& m : union_of(tables)) {
    Column column{m.name, m.unit, {}};
    switch (m.kind) {
      case Kind::integer: column.data = stacked<std::int64_t>(m.name, 0, tables); break;
      case Kind::real: column.data = stacked<double>(m.name, nan, tables); break;
      case Kind::text: column.data = stacked<std::string>(m.name, "", tables); break;
    }
    out.push_back(std::move(column));
  }
  return out;
}

void CaseRecord::add(std::string name, const Value& value, std::string unit) {
  summary.push_back(column_of(std::move(name), value, std::move(unit)));
}

void TableRows::add(const std::vector<Cell>& row) {
  if (table_.columns.empty()) {
    for (const Cell& cell : row) {
      table_.columns.push_back(column_of(cell.name, cell.value, cell.unit));
    }
    return;
  }
  if (row.size() != table_.columns.size()) {
    throw InternalError("a row of " + table_.path + " has other columns than the first");
  }
  for (std::size_t i = 0; i < row.size(); ++i) {
    Column& column = table_.columns[i];
    const Column added = column_of(row[i].name, row[i].value);
    if (column.name != added.name || column.data.index() != added.data.index()) {
      throw InternalError(table_.path + ": column '" + column.name + "' has another name or type");
    }
    std::visit(
        [&](auto& data) {
          using Data = std::remove_reference_t<decltype(data)>;
          data.push_back(std::get<Data>(added.data).front());
        },
        column.data);
  }
}

}  // namespace paceline
