#include "harness/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/clock.h"
#include "harness/gather.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// Core-seconds since boot in which a core was neither idle nor waiting for a disk.
double busy_core_seconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double io_wait = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  stat >> cpu >> user >> nice >> system >> idle >> io_wait >> interrupts >> soft_interrupts;
  if (!stat || cpu != "cpu") return nan;
  return (user + nice + system + interrupts + soft_interrupts) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
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

}  // namespace

double load_of_others(const std::vector<std::string>& hosts, const std::vector<RankLoad>& ranks) {
  std::map<std::string, RankLoad> by_host;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankLoad& load = ranks[rank];
    RankLoad& host =
        by_host.try_emplace(hosts[rank], RankLoad{load.seconds, load.busy, 0}).first->second;
    host.by_process += load.by_process;
  }
  constexpr double shortest = 1;  // s; a tick is 10 ms, on each of many cores
  double most = nan;
  for (const auto& [name, host] : by_host) {
    if (host.seconds < shortest) continue;
    // Of a NaN and 0, max() returns the first.
    most = std::fmax(most, std::max((host.busy - host.by_process) / host.seconds, 0.0));
  }
  return most;
}

HostLoad::HostLoad()
    : began_(host_seconds()), busy_(busy_core_seconds()), by_process_(process_core_seconds()) {}

double HostLoad::others(World& world) const {
  const RankLoad mine = {.seconds = host_seconds() - began_,
                         .busy = busy_core_seconds() - busy_,
                         .by_process = process_core_seconds() - by_process_};
  const auto hosts = world.gather(world.host());
  std::vector<RankLoad> ranks;
  for (const auto& rank : gather_values<RankLoad>(world, {mine})) ranks.push_back(rank.front());
  return load_of_others(hosts, ranks);
}

}  // namespace paceline
