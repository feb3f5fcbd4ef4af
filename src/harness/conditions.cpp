#include "harness/conditions.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/clock.h"
#include "harness/gather.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// The numbers gathered for one repetition on one rank; the sensors' values follow them.
enum : std::size_t { warm_up, repetition, begin, switches, limits, first_sensor };
using Numbers = std::vector<double>;

// The offset from host_seconds() to seconds since 1970 in UTC.
double since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - host_seconds();
}

void append(Numbers& to, const SensorLog& log, const Repetitions& repetitions, bool is_warm_up) {
  const double offset = since_1970();
  for (std::size_t i = 0; i < repetitions.count(); ++i) {
    const HostInterval& host = repetitions.host[i];
    const Reading reading = log.during(host.begin, host.end);
    const Numbers row = {is_warm_up ? 1.0 : 0.0, static_cast<double>(i), host.begin + offset,
                         static_cast<double>(host.involuntary_switches),
                         static_cast<double>(reading.limits)};
    to.insert(to.end(), row.begin(), row.end());
    to.insert(to.end(), reading.values.begin(), reading.values.end());
  }
}

std::int64_t whole(double number) { return static_cast<std::int64_t>(number); }

// A repetition of a rank.
struct RepetitionRow {
  std::size_t rank;
  const double* numbers;
};

// The repetitions of all ranks, by rank.
std::vector<RepetitionRow> rows_of(const std::vector<Numbers>& by_rank, std::size_t width) {
  std::vector<RepetitionRow> rows;
  for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
    const Numbers& all = by_rank[rank];
    for (std::size_t at = 0; at < all.size(); at += width) rows.push_back({rank, &all[at]});
  }
  return rows;
}

// The sensor's values in measured repetitions, where it could be read.
std::vector<double> readings_of(std::size_t sensor, const std::vector<RepetitionRow>& rows) {
  std::vector<double> values;
  for (const auto& [rank, row] : rows) {
    const double value = row[first_sensor + sensor];
    if (row[warm_up] == 0 && !std::isnan(value)) values.push_back(value);
  }
  return values;
}

Table clocks_table(const std::vector<RepetitionRow>& rows, const SensorLog& log) {
  std::vector<std::size_t> readable;
  for (std::size_t s = 0; s < log.sensors().size(); ++s) {
    if (!readings_of(s, rows).empty()) readable.push_back(s);
  }
  TableRows table("clocks");
  for (const auto& [rank, row] : rows) {
    Row cells = {{"rank", static_cast<std::int64_t>(rank)},
                 {"warmup", whole(row[warm_up])},
                 {"repetition", whole(row[repetition])},
                 {"began", row[begin]},
                 {"involuntary_switches", whole(row[switches])}};
    for (const std::size_t s : readable) {
      const Sensor& sensor = log.sensors()[s];
      cells.push_back({sensor.name + "_" + sensor.symbol, row[first_sensor + s]});
    }
    if (log.tells_limits()) {
      cells.push_back({"limited_by", name_of(static_cast<ClockLimit>(whole(row[limits])))});
    }
    table.add(cells);
  }
  return table.take();
}

void add_summary(CaseRecord& record, const std::vector<RepetitionRow>& rows, const SensorLog& log) {
  for (std::size_t s = 0; s < log.sensors().size(); ++s) {
    const std::vector<double> readings = readings_of(s, rows);
    if (readings.empty()) continue;
    const Summary summary = summarize(readings);
    const auto& [name, symbol] = log.sensors()[s];
    record.add(fmt::format("{}_median_{}", name, symbol), summary.median);
    record.add(fmt::format("{}_min_{}", name, symbol), summary.min);
    record.add(fmt::format("{}_max_{}", name, symbol), summary.max);
  }
  std::int64_t switched = 0;
  std::set<double> limited;  // repetitions, on any rank
  for (const auto& [rank, row] : rows) {
    if (row[warm_up] != 0) continue;
    switched += whole(row[switches]);
    if (row[limits] != 0) limited.insert(row[repetition]);
  }
  record.add("involuntary_switches", switched);
  if (log.tells_limits()) {
    record.add("limited_repetitions", static_cast<std::int64_t>(limited.size()));
  }
}

}  // namespace

Conditions::Conditions(const Device& device) : log_(device.sensors()) {}

void Conditions::add_to(CaseRecord& record, World& world, const Samples& samples) const {
  const double others = load_.others(world);
  Numbers mine;
  append(mine, log_, samples.warmup, true);
  append(mine, log_, samples.measured, false);
  const std::vector<Numbers> all = gather_values(world, mine);
  if (all.empty()) return;
  const std::vector<RepetitionRow> rows = rows_of(all, first_sensor + log_.sensors().size());
  record.tables.push_back(clocks_table(rows, log_));
  add_summary(record, rows, log_);
  record.add("other_load_cores", others);
}

}  // namespace paceline
