#pragma once
#include <filesystem>
#include <vector>

namespace paceline {

// The cores on which threads of this process may run, ascending; empty if unknown.
[[nodiscard]] std::vector<int> allowed_cores();

// The cores' worth of time that the CPU quotas of this process's control groups leave it; infinite
// without a quota. root: "/", or another folder in tests.
[[nodiscard]] double cpu_quota(const std::filesystem::path& root = "/");

}  // namespace paceline
