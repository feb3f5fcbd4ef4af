#include "harness/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/host.h"
#include "harness/gather.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double process_core_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    constexpr double micro = 1e-6;
    return static_cast<double>(t.tv_sec) + micro * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

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
  double most = nan;
  for (const auto& [name, host] : by_host) {
    if (host.seconds < shortest || host.busy.empty()) continue;
    double others = -host.by_process;
    for (const auto& [core, seconds] : host.busy) others += seconds;
    most = std::fmax(most, std::max(others / host.seconds, 0.0));
  }
  return most;
}

HostLoad::HostLoad()
    : began_(host_seconds()),
      busy_(busy_seconds(allowed_cores())),
      by_process_(process_core_seconds()) {}

double HostLoad::others(World& world) const {
  std::vector<double> mine = {host_seconds() - began_, process_core_seconds() - by_process_};
  for (const auto& [core, busy] : busy_seconds(allowed_cores())) {
    const auto before = busy_.find(core);
    if (before == busy_.end()) continue;
    mine.insert(mine.end(), {static_cast<double>(core), busy - before->second});
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

}  // namespace paceline
