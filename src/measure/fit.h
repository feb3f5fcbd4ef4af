#pragma once
// The model time = latency + bytes / bandwidth, fitted to a sweep.

#include <vector>

namespace paceline {

struct TimedSize {
  double bytes = 0;
  double seconds = 0;
};

struct LatencyBandwidth {
  double latency = 0;      // seconds, >= 0
  double bandwidth = 0;    // bytes per second; infinite if time does not grow with size
  double worst_error = 0;  // the largest |fitted - measured| / measured
};

// Least squares of relative errors (weights 1 / seconds^2). If latency or slope would be negative,
// it is set to 0 and the other is fitted alone. NaN for fewer than two different sizes, or times
// <= 0.
[[nodiscard]] LatencyBandwidth fit_latency_bandwidth(const std::vector<TimedSize>& points);

}  // namespace paceline
