#include "core/control_groups.h"

#include <fmt/format.h>

#include <fstream>

namespace paceline {

namespace fs = std::filesystem;

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

}  // namespace paceline
