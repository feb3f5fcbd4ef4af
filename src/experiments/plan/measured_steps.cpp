#include "experiments/plan/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "record/result_file.h"

namespace paceline {

namespace {

// As an option would give it; columns hold flags as 0 and 1.
std::string text_of(const Factor<TrainingCase>& f, const Value& value) {
  if (f.type != ValueType::yes_no) return to_text(value);
  return number_of(value) != 0 ? "yes" : "no";
}

// Factors that apply, in their order: whether one does depends on earlier ones.
TrainingCase case_of(const Factors<TrainingCase>& factors, TrainingKind kind, const Row& row) {
  TrainingCase c = training_defaults(kind);
  c.ranks = value_in<std::int64_t>(row, "ranks");
  c.device = enum_named<DeviceKind>(value_in<std::string>(row, "device"));
  for (const Factor<TrainingCase>& f : factors) {
    const Cell* cell = find_column(row, f.name);
    if (!cell || !f.has_option() || !f.applies(c)) continue;
    if (to_text(cell->value) == to_text(f.value(c))) continue;  // no option may give the default
    f.read(text_of(f, cell->value))(c);
  }
  return c;
}

double number_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell ? number_of(cell->value) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

std::vector<MeasuredStep> read_measured_steps(const std::string& path) {
  const std::string experiment = experiment_of(path);
  constexpr auto kinds = names_of(TrainingKind{});
  if (std::find(kinds.begin(), kinds.end(), experiment) == kinds.end()) {
    throw UsageError(fmt::format("{} holds cases of {}; give files of {}", path, experiment,
                                 fmt::join(kinds, ", ")));
  }
  const auto kind = enum_named<TrainingKind>(experiment);
  const Factors<TrainingCase> factors = training_factors(kind);
  const std::vector<Column> summary = read_summary(path);
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < length_of(summary.front()); ++i) {
    const Row row = row_of(summary, i);
    if (value_in<std::string>(row, "status") != "ok") continue;
    MeasuredStep measured;
    measured.name = value_in<std::string>(row, "case");
    measured.step_s = number_in(row, "step_median_s");
    measured.peak_bytes = number_in(row, "peak_bytes");
    measured.sent_bytes = number_in(row, "sent_bytes");
    measured.plan.step = case_of(factors, kind, row);
    steps.push_back(std::move(measured));
  }
  if (steps.empty()) {
    throw UsageError(fmt::format("{} holds no finished case; give a file that has one", path));
  }
  return steps;
}

}  // namespace paceline
