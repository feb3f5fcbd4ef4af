#pragma once
// What a finished case leaves: factors, status, every rank's samples and tables of columns. This is
// what a case file holds (schema version 2 in README.md, "Result files").

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

// One value of a row.
struct Cell {
  std::string name;
  Value value;
  std::string unit = {};
};

// A table made row by row. The first row names the columns; the others must have the same, of the
// same types (InternalError).
class TableRows {
 public:
  explicit TableRows(std::string path) : table_{std::move(path), {}} {}

  void add(const std::vector<Cell>& row);
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
  // What the experiment adds to the summary row: rates, bytes, set-up seconds. Each column holds
  // one value.
  std::vector<Column> summary;

  void add(std::string name, const Value& value, std::string unit = "");
};

// One row of /summary: case (the id), every factor (flags as 0 and 1), status, reason,
// <phase>_{median,ci_low,ci_high,mean,std,min,max,p95}_s over the repetitions' maxima over ranks,
// slowest_rank (by the headline), and the experiment's columns. What was not sampled has no column.
[[nodiscard]] std::vector<Column> summary_row(const CaseRecord& record);

[[nodiscard]] std::size_t length_of(const Column& column);
// The column of that name, or null.
[[nodiscard]] const Column* find_column(const std::vector<Column>& columns, std::string_view name);
// The value of a column of one row; the column must be there and of that type.
template <class T>
[[nodiscard]] const T& value_in(const std::vector<Column>& row, std::string_view name) {
  return std::get<std::vector<T>>(find_column(row, name)->data).front();
}
// A single value as a column.
[[nodiscard]] Column column_of(std::string name, const Value& value, std::string unit = "");

// The rows of all tables below each other, with every column that one of them has. Where a table
// lacks a column stands NaN or, in columns of text, ""; integers become doubles for that. Columns
// that hold numbers here and text there become text.
[[nodiscard]] std::vector<Column> concatenate(const std::vector<std::vector<Column>>& tables);

}  // namespace paceline
