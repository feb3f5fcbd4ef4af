#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "core/communicator.h"
#include "core/error.h"
#include "core/units.h"
#include "experiments/plan/closed_forms.h"
#include "experiments/plan/plan_report.h"
#include "experiments/training/sweep_tables.h"

namespace paceline {

namespace {

// Bisection: the largest integer in 1 ... most for which `holds` is true; 0 if it is false for 1.
// `holds` must be monotone: true up to some number, false above.
std::int64_t largest(std::int64_t most, const std::function<bool(std::int64_t)>& holds) {
  std::int64_t good = 0;
  std::int64_t bad = most + 1;
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (holds(middle) ? good : bad) = middle;
  }
  return good;
}

double peak_of(const PlanCase& plan) { return device_memory(plan).peak(); }

Cell memory_of(const PlanCase& plan) { return {"memory_bytes", plan.memory_bytes, "bytes"}; }

// The largest value of a field of the case with which the plan fits into a device's memory; 0, with
// the peak of 1, if none does.
template <std::int64_t ModelFactors::*field, std::int64_t most>
Row largest_that_fits(const PlanCase& plan) {
  PlanCase other = plan;
  const auto peak = [&](std::int64_t value) {
    other.step.*field = value;
    return peak_of(other);
  };
  const std::int64_t best = largest(most, [&](auto n) { return peak(n) <= plan.memory_bytes; });
  return {{"largest", best},
          {"peak_bytes", peak(std::max<std::int64_t>(best, 1)), "bytes"},
          memory_of(plan)};
}

// 0, with the peak of any number of devices, if no number is enough.
Row fewest_devices(const PlanCase& plan) {
  constexpr std::int64_t most = 1 << 20;
  PlanCase other = plan;
  const auto fits = [&](std::int64_t data_ranks) {
    other.step.ranks = data_ranks;
    return peak_of(other) <= plan.memory_bytes;
  };
  const std::int64_t data_ranks = largest(most, [&](auto n) { return !fits(n); }) + 1;
  const bool is_enough = data_ranks <= most;
  other.step.ranks = std::min(data_ranks, most);
  return {{"devices", is_enough ? other.ranks() : 0},
          {"peak_bytes", peak_of(other), "bytes"},
          memory_of(plan)};
}

Row memory_by_kind(const PlanCase& plan) {
  const MemoryForm m = device_memory(plan);
  Row row;
  for (const MemoryPart& part : memory_parts) row.push_back({part.key, m.*part.bytes, "bytes"});
  row.push_back({"peak_bytes", m.peak(), "bytes"});
  row.push_back(memory_of(plan));
  return row;
}

Row best_bucket(const PlanCase& plan) {
  if (plan.data_ranks() == 1) throw UsageError("--ask: best-bucket needs --ranks above --tp");
  const double bytes = plan.parameters() / plan.tensor *
                       static_cast<double>(size_of(plan.strategy_shape().precision.communication));
  const double latency = collective_latency_s(plan, plan.data_ranks());
  if (latency <= 0 && plan.rates_file.empty()) {
    throw UsageError("--ask: best-bucket needs --latency above 0");
  }
  if (latency <= 0) {
    throw UsageError(
        fmt::format("--ask: best-bucket needs a latency above 0, which all_reduce does not have in "
                    "{}; measure smaller sizes with collectives --fit",
                    plan.rates_file));
  }
  // Bandwidth in bytes of the message.
  const double bandwidth =
      plan.data_bandwidth_bytes_per_s() / ring_share("all_reduce", plan.data_ranks());
  return {{"bucket_bytes", best_bucket_bytes(bytes, latency, bandwidth), "bytes"},
          {"gradient_bytes", bytes, "bytes"},
          {"latency_s", latency, "s"},
          {"bandwidth_bytes_per_s", bandwidth, "bytes/s"}};
}

Row training_run(const PlanCase& plan) {
  if (plan.run_tokens <= 0) throw UsageError("--ask: run needs --run-tokens N");
  constexpr double hour = 3600;
  const double per_second = plan.tokens() / step_time(plan).step_s();
  const double seconds = plan.run_tokens / per_second;
  return {{"run_s", seconds, "s"},
          {"days", seconds / (24 * hour)},
          {"tokens_per_s", per_second},
          {"device_hours", seconds / hour * static_cast<double>(plan.ranks())}};
}

Row step_parts(const PlanCase& plan) {
  const StepTime t = step_time(plan);
  const auto sent = plan.strategy_shape().sent_bytes(plan.step.recompute.blocks);
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  return {{"step_s", t.step_s(), "s"},
          {"products_s", t.products_s, "s"},
          {"traffic_s", t.traffic_s, "s"},
          {"fixed_s", t.fixed_s, "s"},
          {"tensor_s", t.tensor_s, "s"},
          {"exchange_s", t.exchange_s, "s"},
          {"exposed_s", t.exposed_s, "s"},
          {"contention_s", t.contention_s, "s"},
          {"sent_bytes", sent ? *sent / plan.tensor : none, "bytes"}};
}

Row work_by_kind(const PlanCase& plan) {
  Row row = {
      {"group", group_of(plan)}, {"model", model_text(plan)}, {"tokens", plan.group_tokens()}};
  const Work work = plan.work();
  for (const WorkKind& kind : work_kinds) {
    row.push_back({std::string(kind.name), work.*kind.amount});
    row.push_back({std::string(kind.name) + "_per_s", plan.rates.*kind.rate});
  }
  return row;
}

struct Question {
  std::string_view name;
  Row (*answer)(const PlanCase& plan);
};
constexpr std::array questions = {
    Question{"largest-batch", largest_that_fits<&ModelFactors::batch_size, 1 << 20>},
    Question{"largest-context", largest_that_fits<&ModelFactors::context, 1 << 24>},
    Question{"fewest-devices", fewest_devices},
    Question{"memory", memory_by_kind},    // of a device
    Question{"best-bucket", best_bucket},  // the size with the least overhead
    Question{"run", training_run},         // days and device hours
    Question{"step", step_parts},          // and the bytes that a rank sends
    Question{"work", work_by_kind},        // of a rank's step, and its rates
};

// "peak 78.9 GB" of peak_bytes.
std::string cell_text(const Cell& cell) {
  std::string name = cell.name;
  for (const std::string_view suffix : {"_bytes_per_s", "_bytes", "_s"}) {
    if (!cell.unit.empty() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  std::replace(name.begin(), name.end(), '_', ' ');
  const auto* number = std::get_if<double>(&cell.value);
  if (!number) return fmt::format("{} {}", name, to_text(cell.value));
  if (!std::isfinite(*number)) return name + " none";
  if (cell.unit == "s") return fmt::format("{} {}", name, seconds_text(*number));
  if (cell.unit == "bytes") return fmt::format("{} {}", name, bytes_text(*number));
  if (cell.unit == "bytes/s") return fmt::format("{} {}/s", name, bytes_text(*number));
  constexpr double thousand = 1000;
  return fmt::format("{} {}", name, *number < thousand ? number_text(*number) : grouped(*number));
}

}  // namespace

std::vector<std::string_view> question_names() {
  std::vector<std::string_view> names;
  for (const Question& question : questions) names.push_back(question.name);
  return names;
}

std::string answer(std::string_view question, const PlanCase& plan, bool json) {
  Row values = questions.at(index_of_name(question_names(), question)).answer(plan);
  if (json) {
    values.insert(values.begin(), {"question", std::string(question)});
    return json_line(values) + '\n';
  }
  std::vector<std::string> cells;
  for (const Cell& cell : values) cells.push_back(cell_text(cell));
  return fmt::format("{}: {}\n", question, fmt::join(cells, ", "));
}

}  // namespace paceline
