#pragma once
#include <chrono>

namespace paceline {

// Seconds on the host's monotonic clock.
[[nodiscard]] inline double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace paceline
