#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace paceline {

struct ControlGroup {
  std::filesystem::path folder;
  bool version2 = false;
};

// The control groups (v2 or v1) by which `controller` limits this process: its own and their
// ancestors. root: "/", or another folder in tests.
[[nodiscard]] std::vector<ControlGroup> control_groups(const std::string& controller,
                                                       const std::filesystem::path& root);

}  // namespace paceline
