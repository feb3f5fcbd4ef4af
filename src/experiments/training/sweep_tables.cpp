#include "experiments/training/sweep_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace paceline {

namespace {

// Groups of cases that are equal once change() has been applied to them.
template <class Change>
std::vector<std::vector<MeasuredCase>> groups_of(const std::vector<MeasuredCase>& measured,
                                                 Change change) {
  const auto changed = [&](const MeasuredCase& m) {
    TrainingCase c = *m.factors;
    change(c);
    return c;
  };
  std::vector<std::vector<MeasuredCase>> groups;
  for (const MeasuredCase& m : measured) {
    const auto group = std::ranges::find_if(
        groups, [&](const auto& g) { return changed(g.front()) == changed(m); });
    group == groups.end() ? groups.push_back({m}) : group->push_back(m);
  }
  return groups;
}

const MeasuredCase& lowest(const std::vector<MeasuredCase>& group, std::string_view column) {
  return *std::ranges::min_element(group, {}, [&](const auto& m) { return m.at(column); });
}

// The factors in which a group differs from the others: "context 512, shard fsdp"; "all cases" if
// there are no others.
std::string name_of_group(const Factors<TrainingCase>& factors, const TrainingCase& c,
                          const std::vector<MeasuredCase>& measured) {
  std::vector<std::string> parts;
  for (const Factor<TrainingCase>& f : factors) {
    const auto value_of = [&](const TrainingCase& x) {
      return f.applies(x) ? to_text(f.value(x)) : "-";
    };
    const bool differs = std::any_of(measured.begin(), measured.end(), [&](const auto& m) {
      return value_of(*m.factors) != value_of(c);
    });
    if (differs && f.name != "recompute")
      parts.push_back(fmt::format("{} {}", f.name, value_of(c)));
  }
  return parts.empty() ? "all cases" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Link read_link(const std::string& path, const Communicator& communicator, const TrainingCase& c) {
  const std::string_view backend = name_of(communicator.backend());
  const std::string_view dtype =
      name_of(c.comm_dtype == GradientDtype::bf16 ? Dtype::bf16 : Dtype::f32);
  for (const FittedLink& f : read_rates(path).links) {
    if (f.op == "all_reduce" && f.backend == backend && f.dtype == dtype && f.ranks == c.ranks) {
      return f.link;
    }
  }
  throw UsageError(
      fmt::format("--predict: {} has no fit of all_reduce, {}, {}, {} ranks; make it with "
                  "paceline-analysis rates from a file of collectives --fit",
                  path, backend, dtype, c.ranks));
}

double best_bucket_bytes(double bytes, double latency, double bandwidth) {
  return std::min(bytes, std::sqrt(bytes * latency * bandwidth));
}

std::vector<Table> prediction_tables(const std::string& path, const Communicator& communicator,
                                     const std::vector<MeasuredCase>& measured) {
  constexpr double mega = 1e6;
  TableRows rows("predict");
  const auto sweeps = groups_of(measured, [](TrainingCase& c) { c.bucket_mb = 0; });
  for (const MeasuredCase& m : measured) {
    if (m.factors->strategy != Strategy::bucketed) continue;
    const auto sweep = std::ranges::find_if(sweeps, [&](const auto& cases) {
      return std::ranges::find(cases, m.factors, &MeasuredCase::factors) != cases.end();
    });
    const auto [latency, bandwidth] = read_link(path, communicator, *m.factors);
    const double calls = m.at("communication_calls");
    const double bytes = m.at("message_bytes");
    rows.add({{"case", value_in<std::string>(*m.columns, "case")},
              {"bucket_mb", m.factors->bucket_mb},
              {"buckets", calls},
              {"predicted_overhead_s", calls * latency + bytes / (calls * bandwidth)},
              {"measured_exposed_s", m.at("communication_exposed_median_s")},
              {"measured_step_s", m.at("step_median_s")},
              {"predicted_best_bucket_mb", best_bucket_bytes(bytes, latency, bandwidth) / mega},
              {"measured_best_bucket_mb", lowest(*sweep, "step_median_s").factors->bucket_mb}});
  }
  if (rows.empty()) return {};
  return {rows.take()};
}

std::vector<Table> recompute_tables(const Factors<TrainingCase>& factors,
                                    const std::vector<MeasuredCase>& measured) {
  TableRows rows("recompute");
  for (const auto& group : groups_of(measured, [](TrainingCase& c) { c.recompute = {}; })) {
    if (group.size() < 2) continue;
    const MeasuredCase& least = lowest(group, "peak_bytes");
    const MeasuredCase& fastest = lowest(group, "step_median_s");
    rows.add({{"of", name_of_group(factors, *group.front().factors, measured)},
              {"least_memory", FactorValue<Recompute>::write(least.factors->recompute)},
              {"least_memory_peak_bytes", least.at("peak_bytes")},
              {"least_memory_step_s", least.at("step_median_s")},
              {"fastest", FactorValue<Recompute>::write(fastest.factors->recompute)},
              {"fastest_peak_bytes", fastest.at("peak_bytes")},
              {"fastest_step_s", fastest.at("step_median_s")}});
  }
  if (rows.empty()) return {};
  return {rows.take()};
}

}  // namespace paceline
