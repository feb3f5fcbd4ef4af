#include "core/host.h"

#include <fmt/format.h>
#include <omp.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

namespace paceline {

namespace fs = std::filesystem;

std::string cpu_model() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname system{};
  uname(&system);
  return std::string(system.machine) + " processor";
}

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

// /proc/self/cgroup: lines "hierarchy:controllers:path"; version 2 has hierarchy 0 without
// controllers, version 1 a line for each hierarchy: "4:cpu,cpuacct:/job".
std::vector<ControlGroup> control_groups(const std::string& controller, const fs::path& root) {
  std::vector<ControlGroup> groups;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const std::size_t controllers = line.find(':') + 1;
    const std::size_t path = line.find(':', controllers) + 1;
    const std::string names = fmt::format(",{},", line.substr(controllers, path - 1 - controllers));
    const bool version2 = names == ",,";
    if (!version2 && names.find(fmt::format(",{},", controller)) == std::string::npos) continue;
    const fs::path top = root / (version2 ? "sys/fs/cgroup" : "sys/fs/cgroup/" + controller);
    fs::path group = top / fs::path(line.substr(path)).relative_path();
    for (; group != top && group.has_relative_path(); group = group.parent_path()) {
      groups.push_back({group, version2});
    }
    groups.push_back({top, version2});
  }
  return groups;
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
