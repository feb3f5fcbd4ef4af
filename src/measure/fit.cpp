#include "measure/fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace paceline {

LatencyBandwidth fit_latency_bandwidth(const std::vector<TimedSize>& points) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const auto bad = [](const TimedSize& p) { return !(p.seconds > 0); };
  const auto same = [&](const TimedSize& p) { return p.bytes == points.front().bytes; };
  if (std::any_of(points.begin(), points.end(), bad) ||
      std::all_of(points.begin(), points.end(), same)) {
    return {nan, nan, nan};
  }
  // Minimise the sum of ((a + b x - t) / t)^2 over a, b >= 0.
  double w = 0;
  double x = 0;
  double xx = 0;
  double t = 0;
  double xt = 0;
  for (const auto& [bytes, seconds] : points) {
    const double weight = 1 / (seconds * seconds);
    w += weight;
    x += weight * bytes;
    xx += weight * bytes * bytes;
    t += weight * seconds;
    xt += weight * bytes * seconds;
  }
  const double determinant = w * xx - x * x;
  double a = (t * xx - x * xt) / determinant;
  double b = (w * xt - x * t) / determinant;
  if (b < 0) {
    a = t / w;
    b = 0;
  } else if (a < 0) {
    a = 0;
    b = xt / xx;
  }
  LatencyBandwidth fit{.latency = a,
                       .bandwidth = b > 0 ? 1 / b : std::numeric_limits<double>::infinity()};
  for (const auto& [bytes, seconds] : points) {
    fit.worst_error = std::max(fit.worst_error, std::abs(a + b * bytes - seconds) / seconds);
  }
  return fit;
}

}  // namespace paceline
