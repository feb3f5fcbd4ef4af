#include "core/usable_cores.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include "core/control_groups.h"

namespace paceline {

namespace fs = std::filesystem;

// With OMP_PROC_BIND, OpenMP binds the main thread to the first of its places when it is loaded.
std::vector<int> allowed_cores() {
  std::set<int> cores;
  cpu_set_t mine;
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mine)) cores.insert(core);
  }
  for (int place = 0; place < omp_get_num_places(); ++place) {
    std::vector<int> of_place(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, of_place.data());
    cores.insert(of_place.begin(), of_place.end());
  }
  return {cores.begin(), cores.end()};
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
