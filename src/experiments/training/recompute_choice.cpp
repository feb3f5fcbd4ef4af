#include "experiments/training/recompute_choice.h"

#include <fmt/format.h>

#include <algorithm>

namespace paceline {

namespace {

TrainingCase without_recompute(TrainingCase c) {
  c.recompute = {};
  return c;
}

// Groups of cases that differ only in --recompute.
std::vector<std::vector<MeasuredRecompute>> groups_of(
    const std::vector<MeasuredRecompute>& measured) {
  std::vector<std::vector<MeasuredRecompute>> groups;
  for (const MeasuredRecompute& m : measured) {
    const TrainingCase other = without_recompute(m.factors);
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) {
      return without_recompute(g.front().factors) == other;
    });
    group == groups.end() ? groups.push_back({m}) : group->push_back(m);
  }
  return groups;
}

// The factors in which a group differs from the others: "context 512, shard fsdp"; "all cases" if
// there are no others.
std::string name_of_group(const Factors<TrainingCase>& factors, const TrainingCase& c,
                          const std::vector<MeasuredRecompute>& measured) {
  std::vector<std::string> parts;
  for (const Factor<TrainingCase>& f : factors) {
    const auto value_of = [&](const TrainingCase& x) {
      return f.applies(x) ? to_text(f.value(x)) : "-";
    };
    const bool differs = std::any_of(measured.begin(), measured.end(), [&](const auto& m) {
      return value_of(m.factors) != value_of(c);
    });
    if (differs && f.name != "recompute")
      parts.push_back(fmt::format("{} {}", f.name, value_of(c)));
  }
  return parts.empty() ? "all cases" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<Table> recompute_tables(const Factors<TrainingCase>& factors,
                                    const std::vector<MeasuredRecompute>& measured) {
  TableRows rows("recompute");
  for (const auto& group : groups_of(measured)) {
    if (group.size() < 2) continue;
    const auto by = [&](double MeasuredRecompute::*what) -> const MeasuredRecompute& {
      return *std::min_element(group.begin(), group.end(),
                               [what](const auto& a, const auto& b) { return a.*what < b.*what; });
    };
    const MeasuredRecompute& least = by(&MeasuredRecompute::peak);
    const MeasuredRecompute& fastest = by(&MeasuredRecompute::step);
    rows.add({{"of", name_of_group(factors, group.front().factors, measured)},
              {"least_memory", FactorValue<Recompute>::write(least.factors.recompute)},
              {"least_memory_peak_bytes", least.peak},
              {"least_memory_step_s", least.step},
              {"fastest", FactorValue<Recompute>::write(fastest.factors.recompute)},
              {"fastest_peak_bytes", fastest.peak},
              {"fastest_step_s", fastest.step}});
  }
  if (rows.empty()) return {};
  return {rows.take()};
}

}  // namespace paceline
