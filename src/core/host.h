#pragma once
// The host: its processor, and what it grants this process.

#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

// The first "model name" in /proc/cpuinfo; of architectures that have none, "aarch64 processor".
[[nodiscard]] std::string cpu_model();

// The cores on which threads of this process may run, ascending; empty if unknown.
[[nodiscard]] std::vector<int> allowed_cores();

struct ControlGroup {
  std::filesystem::path folder;
  bool version2 = false;
};

// The control groups (v2 or v1) by which `controller` limits this process: its own and their
// ancestors. root: "/", or another folder in tests.
[[nodiscard]] std::vector<ControlGroup> control_groups(const std::string& controller,
                                                       const std::filesystem::path& root);

// The cores' worth of time that the CPU quotas of these groups leave the process; infinite without
// a quota.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

}  // namespace paceline
