#pragma once
// What a finished case leaves: factors, status, every rank's samples and tables of columns. This is
// what a case file holds (schema version 2 in README.md, "Result files").

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/world.h"
#include "measure/case.h"

namespace paceline {

struct Column {
  std::string name;
  std::string unit;  // "s", "bytes", ...; empty: none
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>> data;
};

// A group of equally long columns: "memory", "memory/blocks", "values".
struct Table {
  std::string path;
  std::vector<Column> columns;
};

// One value of a row. Columns hold flags as 0 and 1.
struct Cell {
  std::string name;
  Value value;
  std::string unit = {};
};
using Row = std::vector<Cell>;

// A table made row by row. The first row names the columns; the others must have the same, of the
// same types (InternalError).
class TableRows {
 public:
  explicit TableRows(std::string path) : table_{std::move(path), {}} {}

  void add(const Row& row);
  [[nodiscard]] bool empty() const { return table_.columns.empty(); }
  [[nodiscard]] Table take() { return std::move(table_); }

 private:
  Table table_;
};

struct PhaseSamples {
  std::string phase;
  std::vector<std::vector<double>> warmup;    // [rank][repetition] seconds
  std::vector<std::vector<double>> measured;  // [rank][repetition] seconds
};

struct CaseRecord {
  std::string id;
  Case factors;
  Status status = Status::ok;
  std::string reason;                 // why not ok; one line
  std::string stop_reason;            // why sampling ended
  std::vector<PhaseSamples> samples;  // the last phase is the headline
  std::vector<Table> tables;
  Row summary;  // what the experiment adds to its row: rates, bytes, set-up seconds

  void add(std::string name, Value value, std::string unit = "") {
    summary.push_back({std::move(name), std::move(value), std::move(unit)});
  }
};

// One row of /summary: case (the id), every factor (flags as 0 and 1), status, reason,
// slurm_job() under Slurm, <phase>_{median,ci_low,ci_high,mean,std,min,max,p95}_s over the
// repetitions' maxima over ranks, slowest_rank (by the headline), and the experiment's columns.
// What was not sampled has no column.
[[nodiscard]] Row summary_row(const CaseRecord& record);

[[nodiscard]] std::size_t length_of(const Column& column);
[[nodiscard]] Value value_at(const Column& column, std::size_t row);
[[nodiscard]] Row row_of(const std::vector<Column>& columns, std::size_t row);
// The column, or a row's cell, of that name; null where there is none.
template <class T>
[[nodiscard]] const T* find_column(const std::vector<T>& columns, std::string_view name) {
  const auto it = std::find_if(columns.begin(), columns.end(),
                               [&](const T& column) { return column.name == name; });
  return it == columns.end() ? nullptr : &*it;
}
// The value of a row's cell; it must be there and of that type.
template <class T>
[[nodiscard]] const T& value_in(const Row& row, std::string_view name) {
  return std::get<T>(find_column(row, name)->value);
}
// NaN for text.
[[nodiscard]] double number_of(const Value& value);

// The rows of all tables below each other, with every column that one of them has. Where a table
// lacks a column stands NaN or, in columns of text, ""; integers become doubles for that. Columns
// that hold numbers here and text there become text.
[[nodiscard]] std::vector<Column> concatenate(const std::vector<std::vector<Column>>& tables);

}  // namespace paceline
