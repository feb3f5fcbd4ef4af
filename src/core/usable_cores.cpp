#include "core/usable_cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>

#include "core/control_groups.h"

namespace paceline {

namespace fs = std::filesystem;

// OpenMP may bind each thread, the main thread included, to a core of its own.
std::vector<int> allowed_cores() {
  cpu_set_t all;
  CPU_ZERO(&all);
  std::error_code none;
  for (const auto& thread : fs::directory_iterator("/proc/self/task", none)) {
    cpu_set_t own;
    CPU_ZERO(&own);
    if (sched_getaffinity(std::stoi(thread.path().filename()), sizeof own, &own) == 0) {
      CPU_OR(&all, &all, &own);
    }
  }
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &all)) cores.push_back(core);
  }
  return cores;
}

double cpu_quota(const fs::path& root) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& [group, version2] : control_groups("cpu", root)) {
    // Microseconds of each period; without a quota "max" (version 2) or -1 (version 1).
    double quota = 0;
    double period = 0;
    if (version2) {
      std::ifstream(group / "cpu.max") >> quota >> period;
    } else {
      std::ifstream(group / "cpu.cfs_quota_us") >> quota;
      std::ifstream(group / "cpu.cfs_period_us") >> period;
    }
    if (quota > 0 && period > 0) least = std::min(least, quota / period);
  }
  return least;
}

}  // namespace paceline
