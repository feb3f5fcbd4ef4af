#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "core/error.h"

namespace paceline {
namespace {

// 1, 2, ..., n, unsorted: the k-th order statistic is k.
std::vector<double> ranks(int n) {
  std::vector<double> values;
  for (int i = 0; i < n; i += 2) values.push_back(i + 1);
  for (int i = 1; i < n; i += 2) values.push_back(i + 1);
  return values;
}

TEST(Summary, OfNothingIsNaN) {
  const Summary s = summarize({});
  for (const double v : {s.median, s.ci_low, s.ci_high, s.mean, s.std, s.min, s.max, s.p95}) {
    EXPECT_TRUE(std::isnan(v));
  }
}

TEST(Summary, OfNaNIsNaN) {
  const std::vector<double> values = {1, std::nan(""), 3};
  EXPECT_TRUE(std::isnan(summarize(values).median));
  EXPECT_TRUE(std::isnan(summarize(values).max));
}

TEST(Summary, OfOneValue) {
  const std::vector<double> values = {4};
  const Summary s = summarize(values);
  EXPECT_EQ(s.median, 4);
  EXPECT_EQ(s.mean, 4);
  EXPECT_EQ(s.min, 4);
  EXPECT_EQ(s.max, 4);
  EXPECT_EQ(s.p95, 4);
  EXPECT_TRUE(std::isnan(s.std));
  EXPECT_TRUE(std::isnan(s.ci_low));
}

TEST(Summary, ByHand) {
  const std::vector<double> values = {2, 4, 4, 4, 5, 5, 7, 9};
  const Summary s = summarize(values);
  EXPECT_EQ(s.median, 4.5);
  EXPECT_EQ(s.mean, 5);
  EXPECT_DOUBLE_EQ(s.std, std::sqrt(32.0 / 7));
  EXPECT_EQ(s.min, 2);
  EXPECT_EQ(s.max, 9);
  EXPECT_EQ(s.p95, 9);
}

TEST(Summary, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(summarize(ranks(5)).median, 3);
  EXPECT_EQ(summarize(ranks(6)).median, 3.5);
  EXPECT_EQ(summarize(ranks(9)).median, 5);
}

TEST(Summary, NoIntervalBelowSixValues) {
  EXPECT_TRUE(std::isnan(summarize(ranks(5)).ci_low));
  EXPECT_TRUE(std::isnan(summarize(ranks(5)).ci_high));
}

TEST(Summary, IntervalsRanks) {
  // lo = ceil((n - 1.96 sqrt n) / 2), hi = ceil(1 + (n + 1.96 sqrt n) / 2), within [1, n].
  struct Expected {
    int n;
    double low;
    double high;
  };
  const std::vector<Expected> table = {
      {6, 1, 6},      // 0.60 -> 1, 6.40 -> 7, kept at 6
      {7, 1, 7},      // 0.91 -> 1, 7.09 -> 8, kept at 7
      {8, 2, 8},      // 1.23 -> 2, 7.77 -> 8
      {9, 2, 9},      // 1.56 -> 2, 8.44 -> 9
      {10, 2, 10},    // 1.90 -> 2, 9.10 -> 10
      {11, 3, 10},    // 2.25 -> 3, 9.75 -> 10
      {20, 6, 16},    // 5.62 -> 6, 15.38 -> 16
      {25, 8, 19},    // 7.60 -> 8, 18.40 -> 19
      {100, 41, 61},  // 40.2 -> 41, 60.8 -> 61
  };
  for (const auto& [n, low, high] : table) {
    EXPECT_EQ(summarize(ranks(n)).ci_low, low) << n;
    EXPECT_EQ(summarize(ranks(n)).ci_high, high) << n;
  }
}

TEST(Summary, P95IsTheNearestRank) {
  EXPECT_EQ(summarize(ranks(10)).p95, 10);  // 9.5 -> 10
  EXPECT_EQ(summarize(ranks(19)).p95, 19);  // 18.05 -> 19
  EXPECT_EQ(summarize(ranks(20)).p95, 19);  // exactly 19
  EXPECT_EQ(summarize(ranks(21)).p95, 20);  // 19.95 -> 20
  EXPECT_EQ(summarize(ranks(100)).p95, 95);
}

TEST(RelativeHalfWidth, OfTheMedian) {
  Summary s;
  s.median = 10;
  s.ci_low = 9;
  s.ci_high = 12;
  EXPECT_DOUBLE_EQ(relative_half_width(s), 0.15);
  EXPECT_TRUE(std::isnan(relative_half_width(summarize(ranks(5)))));
}

TEST(MaxOverRanks, OfEachRepetition) {
  EXPECT_EQ(max_over_ranks({{1, 5, 3}, {2, 4, 3}}), (std::vector<double>{2, 5, 3}));
  EXPECT_EQ(max_over_ranks({}), std::vector<double>{});
  EXPECT_THROW((void)max_over_ranks({{1, 2}, {1}}), InternalError);
}

TEST(SlowestRank, HasTheLargestMedian) {
  EXPECT_EQ(slowest_rank({{1, 1, 9}, {2, 2, 2}, {1, 1, 1}}), 1);
  EXPECT_EQ(slowest_rank({{2, 2}, {2, 2}}), 0);
  EXPECT_EQ(slowest_rank({{}, {}}), 0);
}

}  // namespace
}  // namespace paceline
