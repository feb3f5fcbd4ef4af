#include "measure/time_series.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace paceline {
namespace {

// Training steps of 2.7b in bf16 on an H200 at its power limit, ms: 88 ms before the limit takes
// effect, 99 ms when the governor reacts, then an oscillation around 93 ms.
constexpr std::array h200_ms = {88.34, 89.00, 90.13, 89.80, 89.90, 90.29, 90.55, 95.96, 94.57,
                                99.17, 94.79, 92.05, 91.16, 89.87, 89.92, 92.11, 90.65, 90.94,
                                94.45, 96.08, 94.99, 93.52, 91.37, 92.36, 94.34};

std::vector<double> h200_seconds(std::size_t count) {
  constexpr double milli = 1e-3;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < count; ++i) seconds.push_back(milli * h200_ms.at(i));
  return seconds;
}

std::vector<double> noisy_times(std::mt19937& engine, std::size_t count, double relative) {
  std::normal_distribution<double> times(1, relative);
  std::vector<double> values(count);
  for (double& v : values) v = times(engine);
  return values;
}

TEST(MannKendall, CountsRisingPairsLessFallingOnes) {
  // By hand: in 4 values 6 pairs rise, S = 6; sd = sqrt(4 * 3 * 13 / 18); (6 - 1) / sd.
  EXPECT_DOUBLE_EQ(mann_kendall(std::array{1.0, 2.0, 3.0, 4.0}), 5 / std::sqrt(156.0 / 18));
  EXPECT_DOUBLE_EQ(mann_kendall(std::array{4.0, 3.0, 2.0, 1.0}), -5 / std::sqrt(156.0 / 18));
  // One pair rises, 4 fall, one is equal: S = -3.
  EXPECT_DOUBLE_EQ(mann_kendall(std::array{2.0, 3.0, 2.0, 1.0}), -2 / std::sqrt(156.0 / 18));
  EXPECT_EQ(mann_kendall(std::array{5.0, 5.0, 5.0}), 0);
  EXPECT_EQ(mann_kendall(std::array{1.0}), 0);
}

TEST(Drift, ComparesTheHalvesMedians) {
  EXPECT_DOUBLE_EQ(drift(std::array{1.0, 1.0, 9.0, 2.0, 2.0}), 1);
  EXPECT_DOUBLE_EQ(drift(std::array{2.0, 1.0}), -0.5);
  EXPECT_EQ(drift(std::array{1.0}), 0);
}

TEST(HasTrend, IsRightAboutNoiseAndDrift) {
  std::mt19937 engine(1);
  int false_alarms = 0;
  int found = 0;
  constexpr int series = 2000;
  for (int i = 0; i < series; ++i) {
    std::vector<double> values = noisy_times(engine, 20, 0.02);
    false_alarms += static_cast<int>(has_trend(values, {}));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] *= 1 + 0.005 * static_cast<double>(k);
    found += static_cast<int>(has_trend(values, {}));
  }
  EXPECT_LT(false_alarms, series / 18);  // 5% of independent values
  EXPECT_GT(found, series * 99 / 100);   // 10% over the series
  // No trend below the least drift, however significant.
  std::vector<double> slow(40);
  for (std::size_t k = 0; k < slow.size(); ++k) slow[k] = 1 + 0.0001 * static_cast<double>(k);
  EXPECT_FALSE(has_trend(slow, {}));
  EXPECT_TRUE(has_trend(slow, {.z = 1.96, .least = 0.001}));
}

TEST(IsSteady, WaitsUntilAnH200AtItsPowerLimitHasSettled) {
  for (std::size_t count = 0; count < 22; ++count) {
    EXPECT_FALSE(is_steady(h200_seconds(count))) << count;
  }
  EXPECT_TRUE(is_steady(h200_seconds(h200_ms.size())));
}

TEST(IsSteady, LooksAtTwoSecondsAndTenRepetitionsAtLeast) {
  EXPECT_FALSE(is_steady(std::vector<double>(9, 1)));
  EXPECT_TRUE(is_steady(std::vector<double>(10, 1)));
  EXPECT_FALSE(is_steady(std::vector<double>(199, 0.01)));
  EXPECT_TRUE(is_steady(std::vector<double>(201, 0.01)));
  // Only the end of the series counts: an early slow half is ignored.
  std::vector<double> times(30, 2);
  times.insert(times.end(), 10, 1);
  EXPECT_TRUE(is_steady(times));
}

TEST(TwoModesTest, FindsTheGroupsAndTheirMedians) {
  std::vector<double> times;
  for (int i = 0; i < 14; ++i) times.push_back(1 + 0.001 * (i % 5));
  for (int i = 0; i < 8; ++i) times.push_back(1.5 + 0.001 * (i % 3));
  const auto modes = two_modes(times);
  if (!modes) FAIL() << "one group";
  EXPECT_EQ(modes->low_count, 14U);
  EXPECT_NEAR(modes->low, 1.002, 1e-9);
  EXPECT_NEAR(modes->high, 1.501, 1e-9);
}

TEST(TwoModesTest, FewOutliersAreNoSecondMode) {
  std::vector<double> times(24, 1);
  times.insert(times.end(), 5, 2);
  EXPECT_FALSE(two_modes(times));
  times.push_back(2);  // a fifth
  EXPECT_TRUE(two_modes(times));
}

TEST(TwoModesTest, GroupsCloseToEachOtherAreOne) {
  std::vector<double> times(15, 1);
  times.insert(times.end(), 15, 1.0199);
  EXPECT_FALSE(two_modes(times));
  times.insert(times.end(), 15, 1.0201);
  times.erase(times.begin() + 15, times.begin() + 30);
  EXPECT_TRUE(two_modes(times));
}

TEST(TwoModesTest, GroupsAreSevenDeviationsApart) {
  const auto apart = [](double by) {
    std::vector<double> times;
    for (const double x : {0.99, 1.01, 0.99 + by, 1.01 + by}) times.insert(times.end(), 10, x);
    return two_modes(times);
  };
  EXPECT_FALSE(apart(0.069));
  EXPECT_TRUE(apart(0.071));
}

TEST(TwoModesTest, FewOrNonFiniteTimesHaveNoModes) {
  std::vector<double> times(10, 1);
  times.insert(times.end(), 9, 2);
  EXPECT_FALSE(two_modes(times));
  times.push_back(2);
  EXPECT_TRUE(two_modes(times));
  times.push_back(std::numeric_limits<double>::quiet_NaN());
  EXPECT_FALSE(two_modes(times));
  EXPECT_FALSE(two_modes({}));
}

TEST(TwoModesTest, SplitsOfOneModeAreRare) {
  std::mt19937 engine(2);
  std::normal_distribution<double> normal(1, 0.1);
  std::exponential_distribution<double> tail(10);
  int of_normal = 0;
  int of_tail = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<double> times(20);
    for (double& t : times) t = normal(engine);
    of_normal += static_cast<int>(two_modes(times).has_value());
    for (double& t : times) t = 1 + tail(engine);
    of_tail += static_cast<int>(two_modes(times).has_value());
  }
  EXPECT_LE(of_normal, 10);
  EXPECT_LE(of_tail, 100);
}

}  // namespace
}  // namespace paceline
