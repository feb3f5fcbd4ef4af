#include "harness/conditions.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <set>

#include "core/clock.h"
#include "core/host.h"
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

double process_core_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    constexpr double micro = 1e-6;
    return static_cast<double>(t.tv_sec) + micro * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What this rank has counted since the system and its process started.
RankLoad load_so_far() {
  return {host_seconds(), process_core_seconds(), busy_seconds(allowed_cores())};
}

// Collective: load_of_others() since `before` on rank 0; NaN on other ranks.
double load_since(const RankLoad& before, World& world) {
  const RankLoad now = load_so_far();
  std::vector<double> mine = {now.seconds - before.seconds, now.by_process - before.by_process};
  for (const auto& [core, busy] : now.busy) {
    const auto earlier = before.busy.find(core);
    if (earlier == before.busy.end()) continue;
    mine.insert(mine.end(), {static_cast<double>(core), busy - earlier->second});
  }
  const auto hosts = world.gather(world.host());
  std::vector<RankLoad> ranks;
  for (const std::vector<double>& numbers : gather_values(world, mine)) {
    RankLoad& rank = ranks.emplace_back(RankLoad{numbers[0], numbers[1], {}});
    for (std::size_t i = 2; i < numbers.size(); i += 2) {
      rank.busy[static_cast<int>(numbers[i])] = numbers[i + 1];
    }
  }
  return load_of_others(hosts, ranks);
}

}  // namespace

Conditions::Conditions(const Device& device) : log_(device.sensors()), load_(load_so_far()) {}

void Conditions::add_to(CaseRecord& record, World& world, const Samples& samples) const {
  const double others = load_since(load_, world);
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

// Lines "cpu3 user nice system idle io_wait interrupts soft_interrupts ...", in ticks.
CoreSeconds busy_seconds(const std::vector<int>& cores, const std::filesystem::path& root) {
  CoreSeconds busy;
  std::ifstream stat(root / "proc/stat");
  std::string name;
  for (std::string rest; stat >> name; std::getline(stat, rest)) {
    if (!name.starts_with("cpu") || name == "cpu") continue;
    const int core = std::stoi(name.substr(3));
    if (std::find(cores.begin(), cores.end(), core) == cores.end()) continue;
    std::array<double, 7> ticks{};
    for (double& of_kind : ticks) stat >> of_kind;
    const auto [user, nice, system, idle, io_wait, interrupts, soft_interrupts] = ticks;
    busy[core] = (user + nice + system + interrupts + soft_interrupts) /
                 static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  return busy;
}

double load_of_others(const std::vector<std::string>& hosts, const std::vector<RankLoad>& ranks) {
  std::map<std::string, RankLoad> by_host;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    RankLoad& host = by_host[hosts[rank]];
    host.seconds = std::max(host.seconds, ranks[rank].seconds);
    host.by_process += ranks[rank].by_process;
    host.busy.insert(ranks[rank].busy.begin(), ranks[rank].busy.end());
  }
  constexpr double shortest = 1;  // s; a tick is 10 ms, on each of many cores
  double most = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [name, host] : by_host) {
    if (host.seconds < shortest || host.busy.empty()) continue;
    double others = -host.by_process;
    for (const auto& [core, seconds] : host.busy) others += seconds;
    most = std::fmax(most, std::max(others / host.seconds, 0.0));
  }
  return most;
}

}  // namespace paceline
