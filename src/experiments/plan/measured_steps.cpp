#include "experiments/plan/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "record/case_file.h"
#include "record/datasets.h"
#include "record/result_file.h"
#include "record/sound_file.h"

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
  const std::string experiment = experiment_in(path);
  constexpr auto kinds = names_of(TrainingKind{});
  if (std::find(kinds.begin(), kinds.end(), experiment) == kinds.end()) {
    throw UsageError(fmt::format("{} holds cases of {}; give files of {}", path, experiment,
                                 fmt::join(kinds, ", ")));
  }
  const auto kind = enum_named<TrainingKind>(experiment);
  const Factors<TrainingCase> factors = training_factors(kind);
  const std::string device = device_in_file(path);
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
    measured.plan.hardware.name = device;
    steps.push_back(std::move(measured));
  }
  if (steps.empty()) {
    throw UsageError(
        fmt::format("{}: holds no finished case; give a file with a case that is ok", path));
  }
  return steps;
}

std::string experiment_in(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw UsageError(fmt::format("{}: is a folder; give a result file", path));
  }
  require_sound_file(path);
  return experiment_of(path);
}

std::string device_in_file(const std::string& path) {
  const Row first = row_of(read_columns(open_result_file(path).group("ranks")), 0);
  const auto kind = value_in<std::string>(first, "device_kind");
  return enum_named<DeviceKind>(kind) == DeviceKind::cpu ? kind
                                                         : value_in<std::string>(first, "device");
}

bool is_same_plan(const PlanCase& a, const PlanCase& b) {
  const auto of_step = [](const TrainingCase& c) {
    return std::tuple(c.execution, c.mode, c.optimizer, c.d_model, c.d_ff, c.layers, c.heads,
                      c.vocab, c.strategy, c.bucket_mb, c.comm_dtype, c.ranks, c.device);
  };
  const auto& model = static_cast<const ModelFactors&>(a.step);
  const auto& precision = static_cast<const PrecisionFactor&>(a.step);
  const auto& attention = static_cast<const AttentionFactors&>(a.step);
  const auto& gather = static_cast<const GatherFactors&>(a.step);
  return a.hardware.name == b.hardware.name && a.tensor == b.tensor && a.blocks == b.blocks &&
         model == b.step && precision == b.step && attention == b.step && gather == b.step &&
         a.step.recompute == b.step.recompute && of_step(a.step) == of_step(b.step);
}

}  // namespace paceline
