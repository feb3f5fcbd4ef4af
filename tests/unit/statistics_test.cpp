#include "measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace paceline {
namespace {

// 1, n, 2, n - 1, ...: the k-th order statistic is k, and autocorrelation_time() is 1.
std::vector<double> ranks(int n) {
  std::vector<double> values;
  for (int i = 1; 2 * i <= n; ++i) values.insert(values.end(), {1.0 * i, 1.0 + n - i});
  if (n % 2 == 1) values.push_back(0.5 * (n + 1));
  return values;
}

// 1, ..., n, those above the median where there is a '+'.
std::vector<double> ranks_by_signs(std::string_view signs) {
  std::vector<double> values;
  double below = 0;
  double above = static_cast<double>(signs.size()) / 2;
  for (const char sign : signs) values.push_back(sign == '+' ? ++above : ++below);
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
  // [x_k, x_(n + 1 - k)] with the largest k for which P(Binomial(n, 1/2) < k) <= 0.025.
  const std::vector<std::pair<int, double>> table = {
      {6, 1},      // 1 / 64 = 0.016; for 5 values 1 / 32 = 0.031
      {8, 1},      // 1 / 256; k = 2: 9 / 256 = 0.035
      {9, 2},      // 10 / 512 = 0.020
      {11, 2},     // 12 / 2048; k = 3: 67 / 2048 = 0.033
      {12, 3},     // 79 / 4096 = 0.019
      {20, 6},     // 0.021; k = 7: 0.058
      {30, 10},    // 0.021; k = 11: 0.049
      {100, 40},   // k = 41: 0.028
      {2000, 956}  // 0.5^2000 is below the smallest double
  };
  for (const auto& [n, k] : table) {
    EXPECT_EQ(summarize(ranks(n)).ci_low, k) << n;
    EXPECT_EQ(summarize(ranks(n)).ci_high, n + 1 - k) << n;
  }
}

TEST(Summary, TheIntervalOfAutocorrelatedValuesIsWider) {
  // r_1 = 5 / 20, r_2 = 2 / 20, r_3 = -5 / 20, r_4 = 0: W = 4 and (1 + 4 / 20) (1 + 9 / 20).
  const std::vector<double> some = ranks_by_signs("+++-----+-+++-+++---");
  EXPECT_DOUBLE_EQ(autocorrelation_time(some), 1.74);
  // 10.5 - 4.5 sqrt(1.74) = 4.6
  EXPECT_EQ(summarize(some).ci_low, 4);
  EXPECT_EQ(summarize(some).ci_high, 17);
  // r = 0.75, 0.5, 0.25, 0, -0.25, -0.5, -5 / 12: W = 7 and 5 / 3 (1 + 15 / 12).
  const std::vector<double> halves = ranks_by_signs("------++++++");
  EXPECT_DOUBLE_EQ(autocorrelation_time(halves), 3.75);
  EXPECT_EQ(summarize(halves).ci_low, 1);
  EXPECT_EQ(summarize(halves).ci_high, 12);
  for (const auto& none : {std::vector<double>{}, {1}, {1, 1, 1}, {1, 2, 1, 2}}) {
    EXPECT_EQ(autocorrelation_time(none), 1);
  }
}

TEST(Summary, P95IsTheNearestRank) {
  EXPECT_EQ(summarize(ranks(10)).p95, 10);  // 9.5 -> 10
  EXPECT_EQ(summarize(ranks(19)).p95, 19);  // 18.05 -> 19
  EXPECT_EQ(summarize(ranks(20)).p95, 19);  // exactly 19
  EXPECT_EQ(summarize(ranks(21)).p95, 20);  // 19.95 -> 20
  EXPECT_EQ(summarize(ranks(100)).p95, 95);
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

// [rank][repetition]. The maxima of the headline are 10 (rank 1), 7 (rank 0), 8 (rank 1).
const RankSamples forward_seconds = {{1, 2, 3}, {4, 5, 2}};
const RankSamples backward_seconds = {{2, 4, 1}, {5, 1, 5}};
const RankSamples step_seconds = {{4, 7, 6}, {10, 6.5, 8}};

TEST(HeadlineParts, AreOfTheSlowestRankInTheMedianRepetition) {
  const auto parts = headline_parts({&forward_seconds, &backward_seconds}, step_seconds);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].of_median, 2);  // rank 1, repetition 2
  EXPECT_EQ(parts[1].of_median, 5);
  EXPECT_EQ(parts[2].of_median, 1);
  EXPECT_DOUBLE_EQ(parts[0].of_mean, (4 + 2 + 2) / 3.0);
  EXPECT_DOUBLE_EQ(parts[1].of_mean, (5 + 4 + 5) / 3.0);
  EXPECT_DOUBLE_EQ(parts[2].of_mean, (1 + 1 + 1) / 3.0);
}

TEST(HeadlineParts, OfAnEvenNumberAreTheMeanOfTheMiddleTwo) {
  // The headline times, sorted: 1, 4, 6, 9.
  const RankSamples phase = {{8, 1, 2, 3}};
  const RankSamples headline = {{9, 1, 6, 4}};
  const auto parts = headline_parts({&phase}, headline);
  EXPECT_EQ(parts[0].of_median, 2.5);
  EXPECT_EQ(parts[0].of_median + parts[1].of_median, 5);
  EXPECT_EQ(parts[0].of_mean + parts[1].of_mean, 5);
}

TEST(HeadlineParts, OfEqualRanksTheLowestCounts) {
  const RankSamples phase = {{1}, {2}};
  const RankSamples headline = {{3}, {3}};
  EXPECT_EQ(headline_parts({&phase}, headline)[0].of_median, 1);
}

TEST(HeadlineParts, ThereAreNoneWithoutRepetitions) {
  const RankSamples nothing = {{}, {}};
  EXPECT_TRUE(headline_parts({&nothing}, nothing).empty());
  EXPECT_TRUE(headline_parts({}, {}).empty());
}

TEST(HeadlineParts, AreNaNIfASampleIsNaN) {
  const RankSamples known = {{1, 2}, {1, 2}};
  const RankSamples partly = {{1, 2}, {1, NAN}};
  const auto expect_nan = [](const std::vector<HeadlinePart>& parts) {
    ASSERT_EQ(parts.size(), 3U);
    for (const HeadlinePart& part : parts) {
      EXPECT_TRUE(std::isnan(part.of_median));
      EXPECT_TRUE(std::isnan(part.of_mean));
    }
  };
  expect_nan(headline_parts({&known, &partly}, known));
  expect_nan(headline_parts({&known, &known}, partly));
}

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
  // Shorter times of more bytes: the latency alone, 3 / 5, and errors of 0.4 and 0.2.
  EXPECT_NEAR(fit_latency_bandwidth({{1, 1}, {2, 0.5}}).worst_error, 0.4, 1e-12);
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
