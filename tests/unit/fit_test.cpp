#include "measure/fit.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

TEST(Fit, ExactPointsGiveTheLine) {
  std::vector<TimedSize> points;
  for (const double bytes : {1e3, 1e5, 1e6, 1e8}) points.push_back({bytes, 5e-6 + bytes / 2e9});
  const LatencyBandwidth fit = fit_latency_bandwidth(points);
  EXPECT_NEAR(fit.latency, 5e-6, 1e-15);
  EXPECT_NEAR(fit.bandwidth, 2e9, 1);
  EXPECT_LT(fit.worst_error, 1e-12);
}

// An unweighted fit would be determined by the largest size, with an arbitrary latency.
TEST(Fit, EverySizeCountsByItsRelativeError) {
  const std::vector<TimedSize> points = {{8, 1e-5}, {1e6, 6e-5}, {1e9, 0.055}};
  const LatencyBandwidth fit = fit_latency_bandwidth(points);
  EXPECT_NEAR(fit.latency, 1e-5, 1e-6);
  EXPECT_LT(fit.worst_error, 0.1);
}

TEST(Fit, NothingIsNegative) {
  const LatencyBandwidth steep = fit_latency_bandwidth({{1e3, 1e-6}, {1e6, 2e-3}});
  EXPECT_EQ(steep.latency, 0);
  EXPECT_GT(steep.bandwidth, 0);
  const LatencyBandwidth falling = fit_latency_bandwidth({{1e3, 2e-6}, {1e6, 1e-6}});
  EXPECT_GT(falling.latency, 0);
  EXPECT_TRUE(std::isinf(falling.bandwidth));
}

TEST(Fit, OneSizeOrNoTimeFitsNothing) {
  EXPECT_TRUE(std::isnan(fit_latency_bandwidth({}).latency));
  EXPECT_TRUE(std::isnan(fit_latency_bandwidth({{8, 1e-5}, {8, 2e-5}}).bandwidth));
  EXPECT_TRUE(std::isnan(fit_latency_bandwidth({{8, 0}, {16, 2e-5}}).latency));
}

}  // namespace
}  // namespace paceline
