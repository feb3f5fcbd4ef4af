#include "experiments/plan/measured_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "record/case_file.h"
#include "record/datasets.h"
#include "record/untrusted_file.h"

namespace paceline {

namespace {

// A value as the option would be written; columns store flags as 0 and 1.
std::string text_of(const Factor<TrainingCase>& f, const Value& value) {
  if (f.type != ValueType::yes_no) return to_text(value);
  return number_of(value) != 0 ? "yes" : "no";
}

// Reads the factors that apply, in order, since whether a factor applies depends on earlier ones.
TrainingCase case_of(const Factors<TrainingCase>& factors, TrainingKind kind, const Row& row) {
  constexpr std::int64_t max_ranks = 1'000'000;
  TrainingCase c = training_defaults(kind);
  c.ranks = value_in<std::int64_t>(row, "ranks");
  if (c.ranks < 1 || c.ranks > max_ranks) {
    throw UsageError(fmt::format("ranks: {} is out of range", c.ranks));
  }
  c.device = enum_named<DeviceKind>(value_in<std::string>(row, "device"));
  for (const Factor<TrainingCase>& f : factors) {
    const Cell* cell = find_column(row, f.name);
    if (!cell || !f.has_option() || !f.applies(c)) continue;
    // A default may have a spelling that no option accepts, so it is not parsed.
    if (to_text(cell->value) == to_text(f.value(c))) continue;
    f.read(text_of(f, cell->value))(c);
  }
  return c;
}

// NaN if the column is absent or the value was not measured.
double measured_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  const double number = cell ? number_of(cell->value) : std::numeric_limits<double>::quiet_NaN();
  if (number < 0 || std::isinf(number)) {
    throw Hdf5Error(fmt::format("column '{}' holds {}", name, number));
  }
  return number;
}

MeasuredStep step_of(const Factors<TrainingCase>& factors, TrainingKind kind, const Row& row) {
  MeasuredStep measured;
  measured.name = value_in<std::string>(row, "case");
  measured.step_s = measured_in(row, "step_median_s");
  measured.peak_bytes = measured_in(row, "peak_bytes");
  measured.sent_bytes = measured_in(row, "sent_bytes");
  if (!(measured.step_s > 0)) throw Hdf5Error("column 'step_median_s' holds no time");
  measured.plan.step = case_of(factors, kind, row);
  check_plan(measured.plan);
  return measured;
}

// The shape of the products in this scope.
double Work::*product_in(const std::string& scope) {
  const auto is_in = [&](const char* part) { return scope.find(part) != std::string::npos; };
  if (is_in("/scaled dot product attention/")) return &Work::attention_flops;
  if (is_in("/attention/")) return &Work::projection_flops;
  return is_in("/ffn/") ? &Work::feed_forward_flops : &Work::head_flops;
}

// From the columns of kernels/scopes: the seconds of rank 0's operations by kind of work, each with
// the step's work of that kind. Operations with FLOPs are matrix products. Other operations of the
// optimizer move parameters; the rest move activations.
std::vector<TimedWork> profiled_work(const std::vector<Column>& scopes, const Work& step) {
  Work seconds;
  for (std::size_t i = 0; i < length_of(scopes.front()); ++i) {
    const Row row = row_of(scopes, i);
    const bool is_operation = value_in<std::int64_t>(row, "operation") == 1;
    if (!is_operation || value_in<std::int64_t>(row, "rank") != 0) continue;
    const auto scope = value_in<std::string>(row, "scope");
    double Work::*kind = &Work::activation_bytes;
    if (scope.starts_with("optimizer/")) kind = &Work::parameter_bytes;
    if (value_in<double>(row, "flops") > 0) kind = product_in(scope);
    seconds.*kind += measured_in(row, "total");
  }
  std::vector<TimedWork> parts;
  for (double Work::*const kind :
       {&Work::projection_flops, &Work::feed_forward_flops, &Work::head_flops,
        &Work::attention_flops, &Work::parameter_bytes, &Work::activation_bytes}) {
    if (!(seconds.*kind > 0) || !(step.*kind > 0)) continue;
    Work part;
    part.*kind = step.*kind;
    if (kind == &Work::attention_flops) part.heads = step.heads;
    parts.push_back({part, seconds.*kind});
  }
  return parts;
}

// Calls work(); its errors get the file's path and the part of the file in front.
template <class F>
auto with_place(const std::string& path, const std::string& part, const F& work) {
  try {
    return reading(path, work);
  } catch (const UsageError& error) {
    const std::string what = error.what();
    if (what.find(path) != std::string::npos) throw;
    throw UsageError(fmt::format("{}: {}: {}", path, part, what));
  }
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
  const hdf5::File file = open_result_file(path);
  std::vector<MeasuredStep> steps;
  for (std::size_t i = 0; i < length_of(summary.front()); ++i) {
    const Row row = row_of(summary, i);
    const std::string place = fmt::format("row {} of /summary", i);
    const bool ok =
        with_place(path, place, [&] { return value_in<std::string>(row, "status") == "ok"; });
    if (!ok) continue;
    MeasuredStep measured = with_place(path, place, [&] { return step_of(factors, kind, row); });
    measured.plan.hardware.name = device;
    const std::string scopes = fmt::format("cases/{}/kernels/scopes", measured.name);
    measured.profiled = with_place(path, scopes, [&]() -> std::vector<TimedWork> {
      if (!file.has(scopes)) return {};
      return profiled_work(read_columns(file.group(scopes)), measured.plan.work());
    });
    steps.push_back(std::move(measured));
  }
  if (steps.empty()) {
    throw UsageError(
        fmt::format("{}: holds no finished case; give a file with a case that is ok", path));
  }
  return steps;
}

std::string experiment_in(const std::string& path) {
  std::error_code unknown;  // reported when the file is opened
  if (std::filesystem::is_directory(path, unknown)) {
    throw UsageError(fmt::format("{}: is a folder; give a result file", path));
  }
  require_readable(path);
  return experiment_of(path);
}

std::string device_in_file(const std::string& path) {
  return with_place(path, "/ranks", [&] {
    const std::vector<Column> ranks = read_columns(open_result_file(path).group("ranks"));
    const bool has_row =
        !ranks.empty() &&
        std::all_of(ranks.begin(), ranks.end(), [](const auto& c) { return length_of(c) > 0; });
    if (!has_row) throw Hdf5Error("/ranks is empty");
    const Row first = row_of(ranks, 0);
    const std::string kind = value_in<std::string>(first, "device_kind");
    return enum_named<DeviceKind>(kind) == DeviceKind::cpu ? kind
                                                           : value_in<std::string>(first, "device");
  });
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
  return a.hardware.name == b.hardware.name && a.tensor == b.tensor &&
         a.block_kind == b.block_kind && model == b.step && precision == b.step &&
         attention == b.step && gather == b.step && a.step.recompute == b.step.recompute &&
         of_step(a.step) == of_step(b.step);
}

}  // namespace paceline
