#pragma once
// The record of a finished case: factors, status, the samples of every rank, and tables of columns:
// the contents of a case file (docs/file-format.md).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/world.h"
#include "measure/case.h"

namespace paceline {

struct Column {
  std::string name;
  std::string unit;  // "s", "bytes", ...; empty: none
  // Types in ascending order: concatenate() takes the last that occurs.
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>> data;
  std::string description = {};
};

// A group of columns of equal length: "memory", "memory/blocks", "values".
struct Table {
  std::string path;
  std::vector<Column> columns;
};

// One value of a row. Files hold flags as 0 and 1.
struct Cell {
  std::string name;
  Value value;
  std::string unit = {};  // empty: that of record/description_table.cpp
};
using Row = std::vector<Cell>;

// A table built row by row. The first row names the columns; later rows must have the same columns
// and types (InternalError).
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
  bool is_part = false;  // of the headline: its parts are consecutive and add up to it
};

// Warnings: reasons to doubt a case's times. They are in its record and below the console table.
struct WarningKind {
  std::string_view name;
  std::string_view meaning;  // and what helps
};

namespace warning {

inline constexpr WarningKind wide_interval = {
    "wide_interval",
    "the 95% interval is wider than 5% of the median; take more repetitions (--steps, --until-ci) "
    "on a quieter machine"};
inline constexpr WarningKind two_modes = {
    "two_modes",
    "the times fall into two groups, so that the median is one of either; look at samples/"};
inline constexpr WarningKind trend = {
    "trend",
    "the times drift from the first half to the second; warm up for longer (--max-warmup)"};
inline constexpr WarningKind not_converged = {
    "not_converged",
    "--max-steps was reached before --until-ci or --min-time; allow more repetitions"};
inline constexpr WarningKind clocks_limited = {
    "clocks_limited",
    "power or temperature limited the clocks; clocks/ has the readings of every repetition"};
inline constexpr WarningKind other_load = {
    "other_load", "other programs used the cores; measure on an idle machine"};
inline constexpr WarningKind oversubscribed = {
    "oversubscribed",
    "ranks have more threads than cores; start fewer ranks, or give them fewer --threads"};
inline constexpr WarningKind one_rank = {
    "one_rank", "a single rank communicates with no other; start more ranks (mpirun -np N)"};
inline constexpr WarningKind cpu_quota = {
    "cpu_quota", "a control group limits the time of the cores; measure without a limit (cpu.max)"};
inline constexpr WarningKind old_blas_kernels = {
    "old_blas_kernels",
    "the BLAS computes with kernels for an older processor; paceline info names the "
    "OPENBLAS_CORETYPE to set"};
inline constexpr WarningKind skipped_steps = {
    "skipped_steps",
    "gradients overflowed fp16, so that steps ended without an update and their optimizer times "
    "are too short; warm up for longer (--warmup), until the loss scale has settled"};
inline constexpr WarningKind above_ceiling = {
    "above_ceiling",
    "matrix products ran faster than the ceiling measured in this run, the data sheet or "
    "--peak-tflops allows, so that one of them is wrong; measure again on an idle machine, or "
    "correct --peak-tflops"};
inline constexpr WarningKind timed_by_events = {
    "timed_by_events",
    "the profile is of events, which do not see into graphs; trace/ranks says why there are no "
    "records of kernels"};
inline constexpr WarningKind lost_records = {
    "lost_records", "the profiler lost records of kernels; profile fewer steps (--profile)"};
inline constexpr std::array all = {wide_interval,   two_modes,        trend,          not_converged,
                                   clocks_limited,  other_load,       oversubscribed, one_rank,
                                   cpu_quota,       old_blas_kernels, skipped_steps,  above_ceiling,
                                   timed_by_events, lost_records};

}  // namespace warning

struct Warning {
  WarningKind kind;
  std::string text;  // for this case, with its figures
};

// "wide_interval,trend"; empty for none.
[[nodiscard]] std::string kinds_text(const std::vector<Warning>& warnings);
// Every warning's text, joined by "; ".
[[nodiscard]] std::string warnings_text(const std::vector<Warning>& warnings);

// A line for each kind: the number of cases and their names, what the kind means and what helps.
// cases: {name, kinds_text}.
[[nodiscard]] std::string warning_lines(
    const std::vector<std::pair<std::string, std::string>>& cases);

struct CaseRecord {
  std::string id;
  Case factors;
  std::vector<FactorNote> factor_notes;  // at least those of `factors`
  Status status = Status::ok;
  std::string reason;                 // why the status is not ok; one line
  std::string warmup_reason;          // why warm-up ended
  std::string stop_reason;            // why sampling ended
  std::vector<PhaseSamples> samples;  // the last phase is the headline
  std::vector<Table> tables;
  std::vector<Warning> warnings;
  Row summary;  // the experiment's own columns: rates, bytes, set-up seconds

  void add(std::string name, Value value) {
    summary.push_back({std::move(name), std::move(value)});
  }
};

// One row of /summary: case (the id), run (unless empty), every factor, status, reason, slurm_job()
// under Slurm, <phase>_{median,ci_low,ci_high,mean,std,min,max,p95}_s of the repetitions (each the
// maximum over ranks), slowest_rank (by the headline), <phase>_{median,mean}_part_s of the phases
// that are parts of the headline and of "rest" (headline_parts()), warmup_reason, stop_reason,
// warnings (their kinds), and the experiment's columns. A phase without samples has no columns.
[[nodiscard]] Row summary_row(const CaseRecord& record, const std::string& run = {});

// One line of JSON, keyed by the columns' names; NaN is null.
[[nodiscard]] std::string json_line(const Row& row);

[[nodiscard]] std::size_t length_of(const Column& column);
[[nodiscard]] Value value_at(const Column& column, std::size_t row);
[[nodiscard]] Row row_of(const std::vector<Column>& columns, std::size_t row);
// The columns with this row alone.
[[nodiscard]] std::vector<Column> row_alone(const std::vector<Column>& columns, std::size_t row);
// The column, or the cell of a row, of this name; null if there is none.
template <class T>
[[nodiscard]] const T* find_column(const std::vector<T>& columns, std::string_view name) {
  const auto it = std::ranges::find(columns, name, &T::name);
  return it == columns.end() ? nullptr : &*it;
}
// The value of a cell. Throws UsageError if it is missing or of another type: the row comes from a
// damaged file.
template <class T>
[[nodiscard]] const T& value_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  const T* value = cell == nullptr ? nullptr : std::get_if<T>(&cell->value);
  if (value != nullptr) return *value;
  throw UsageError(fmt::format("column '{}' is missing or of another type", name));
}
// NaN for text.
[[nodiscard]] double number_of(const Value& value);

// The rows of all tables, with the union of their columns. Missing values are NaN (integers become
// doubles for that) or "" in columns of text. Columns that are numbers in one table and text in
// another become text.
[[nodiscard]] std::vector<Column> concatenate(const std::vector<std::vector<Column>>& tables);

}  // namespace paceline
