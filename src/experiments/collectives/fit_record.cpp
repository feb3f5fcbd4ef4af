#include "experiments/collectives/fit_record.h"

#include <algorithm>
#include <utility>

namespace paceline {

namespace {

struct SizeSweep {
  CollectiveCase factors;  // without a size
  std::vector<TimedSize> points;
};

std::vector<SizeSweep> size_sweeps(const std::vector<MeasuredCollective>& measured) {
  std::vector<SizeSweep> sweeps;
  for (const MeasuredCollective& m : measured) {
    CollectiveCase factors = m.factors;
    factors.bytes = {};
    auto sweep = std::find_if(sweeps.begin(), sweeps.end(),
                              [&](const SizeSweep& s) { return s.factors == factors; });
    if (sweep == sweeps.end()) sweep = sweeps.insert(sweep, {factors, {}});
    sweep->points.push_back(m.timed);
  }
  return sweeps;
}

std::vector<Cell> with_factors(const CollectiveCase& c, const std::vector<Cell>& figures) {
  const auto placement = c.is_in_place() ? YesNo::yes : YesNo::no;
  const std::string redop = c.op->reduces ? std::string(name_of(c.redop)) : "none";
  std::vector<Cell> row = {{"backend", std::string(name_of(c.backend))},
                           {"op", std::string(c.op->name)},
                           {"dtype", std::string(name_of(c.dtype))},
                           {"redop", redop},
                           {"in_place", std::string(name_of(placement))},
                           {"registration", std::string(name_of(c.registration))},
                           {"cadence", std::string(name_of(c.cadence))},
                           {"cache", std::string(name_of(c.cache))},
                           {"ranks", std::int64_t{c.ranks}}};
  row.insert(row.end(), figures.begin(), figures.end());
  return row;
}

}  // namespace

std::vector<Table> fit_tables(const std::vector<MeasuredCollective>& measured) {
  if (measured.empty()) return {};
  TableRows fits("fit");
  TableRows residuals("fit_residuals");
  for (const auto& [factors, points] : size_sweeps(measured)) {
    const LatencyBandwidth fit = fit_latency_bandwidth(points);
    fits.add(with_factors(factors, {{"latency_s", fit.latency, "s"},
                                    {"bandwidth_bytes_per_s", fit.bandwidth, "bytes/s"},
                                    {"worst_relative_error", fit.worst_error}}));
    for (const TimedSize& p : points) {
      const double fitted = fit.latency + p.bytes / fit.bandwidth;
      residuals.add(with_factors(factors, {{"message_bytes", p.bytes, "bytes"},
                                           {"time_s", p.seconds, "s"},
                                           {"fitted_s", fitted, "s"},
                                           {"relative_error", fitted / p.seconds - 1}}));
    }
  }
  return {fits.take(), residuals.take()};
}

}  // namespace paceline
