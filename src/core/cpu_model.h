#pragma once
#include <string>

namespace paceline {

// The first "model name" in /proc/cpuinfo; of architectures that have none, "aarch64 processor".
[[nodiscard]] std::string cpu_model();

}  // namespace paceline
