// --fit: time = latency + bytes / bandwidth, over the sizes of each sweep.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "experiments/collectives/collectives.h"
#include "measure/fit.h"

namespace paceline {

namespace {

// What one sweep has in common, in the order of key_names, and its number of ranks.
using Key = std::pair<std::vector<std::string>, std::int64_t>;
using Sweeps = std::map<Key, std::vector<TimedSize>>;

const std::vector<std::string>& key_names() {
  static const auto* const names = new std::vector<std::string>{
      "backend", "op", "dtype", "redop", "in_place", "registration", "cadence", "cache"};
  return *names;
}

Sweeps sweeps_in(const std::vector<std::vector<Column>>& rows) {
  Sweeps sweeps;
  for (const auto& row : rows) {
    if (value_in<std::string>(row, "status") != "ok") continue;
    std::vector<std::string> key;
    for (const std::string& name : key_names()) key.push_back(value_in<std::string>(row, name));
    sweeps[{key, value_in<std::int64_t>(row, "ranks")}].push_back(
        {.bytes = value_in<double>(row, "message_bytes"),
         .seconds = value_in<double>(row, "time_median_s")});
  }
  return sweeps;
}

// A table whose rows begin with a key.
class KeyedTable {
 public:
  explicit KeyedTable(std::string path) : table_{std::move(path), {}} {
    for (const std::string& name : key_names()) {
      table_.columns.push_back({name, "", std::vector<std::string>{}});
    }
    table_.columns.push_back({"ranks", "", std::vector<std::int64_t>{}});
  }
  void column(std::string name, std::string unit) {
    table_.columns.push_back({std::move(name), std::move(unit), std::vector<double>{}});
  }
  void row(const Key& key, const std::vector<double>& numbers) {
    auto column = table_.columns.begin();
    for (const std::string& text : key.first) {
      std::get<std::vector<std::string>>((column++)->data).push_back(text);
    }
    std::get<std::vector<std::int64_t>>((column++)->data).push_back(key.second);
    for (const double number : numbers) {
      std::get<std::vector<double>>((column++)->data).push_back(number);
    }
  }
  [[nodiscard]] Table take() { return std::move(table_); }

 private:
  Table table_;
};

}  // namespace

std::vector<Table> CollectivesExperiment::closing_tables(
    const std::vector<std::vector<Column>>& rows) const {
  const Sweeps sweeps = sweeps_in(rows);
  if (!options_.collectives.fit || sweeps.empty()) return {};
  KeyedTable fits("fit");
  fits.column("latency_s", "s");
  fits.column("bandwidth_bytes_per_s", "bytes/s");
  fits.column("worst_relative_error", "");
  KeyedTable residuals("fit_residuals");
  residuals.column("message_bytes", "bytes");
  residuals.column("time_s", "s");
  residuals.column("fitted_s", "s");
  residuals.column("relative_error", "");
  for (const auto& [key, points] : sweeps) {
    const LatencyBandwidth fit = fit_latency_bandwidth(points);
    fits.row(key, {fit.latency, fit.bandwidth, fit.worst_error});
    for (const TimedSize& p : points) {
      const double fitted = fit.latency + p.bytes / fit.bandwidth;
      residuals.row(key, {p.bytes, p.seconds, fitted, fitted / p.seconds - 1});
    }
  }
  return {fits.take(), residuals.take()};
}

}  // namespace paceline
