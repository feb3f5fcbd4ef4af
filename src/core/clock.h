#pragma once
#include <chrono>

namespace paceline {

// Seconds on the host's monotonic clock.
[[nodiscard]] inline double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns what `work` returns; sets `seconds` to its duration.
template <class F>
[[nodiscard]] auto timed(double& seconds, F&& work) {
  const double began = host_seconds();
  auto result = work();
  seconds = host_seconds() - began;
  return result;
}

}  // namespace paceline
