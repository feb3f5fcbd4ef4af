#include "measure/modes.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace paceline {
namespace {

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
  std::vector<double> times(27, 1);
  times.insert(times.end(), 3, 2);
  EXPECT_FALSE(two_modes(times));
  times.insert(times.end(), 5, 2);
  EXPECT_TRUE(two_modes(times));
}

TEST(TwoModesTest, GroupsCloseToEachOtherAreOne) {
  std::vector<double> times(15, 1);
  times.insert(times.end(), 15, 1.019);
  EXPECT_FALSE(two_modes(times));
  times.insert(times.end(), 15, 1.03);
  times.erase(times.begin() + 15, times.begin() + 30);
  EXPECT_TRUE(two_modes(times));
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
