#pragma once
// time = latency + bytes / bandwidth, fitted to a sweep.

#include <vector>

namespace paceline {

struct TimedSize {
  double bytes = 0;
  double seconds = 0;
};

struct LatencyBandwidth {
  double latency = 0;      // seconds, not below 0
  double bandwidth = 0;    // bytes per second; infinite when time does not grow with size
  double worst_error = 0;  // the largest |fitted - measured| / measured
};

// Weighted least squares with weights 1 / seconds^2, so that every size counts by its relative
// error. Where the best latency (or slope) would be negative it is 0, and the other is the best for
// that. NaN for fewer than two different sizes, or times that are not above 0.
[[nodiscard]] LatencyBandwidth fit_latency_bandwidth(const std::vector<TimedSize>& points);

}  // namespace paceline
