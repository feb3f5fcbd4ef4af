#include "measure/run_ratio.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

using Runs = std::vector<RunPair>;

// n repetitions, evenly spaced from low to high.
std::vector<double> evenly(double low, double high, int n = 10) {
  std::vector<double> seconds;
  for (int i = 0; i < n; ++i) seconds.push_back(low + (high - low) * i / (n - 1));
  return seconds;
}

// Pairs with these ratios; the repetitions of each run vary by far more.
Runs pairs_of_ratios(const std::vector<double>& ratios) {
  Runs pairs;
  for (const double ratio : ratios) {
    const double level = 1 + static_cast<double>(pairs.size());
    pairs.push_back(
        {evenly(level / 4, level * 7 / 4), evenly(ratio * level / 4, ratio * level * 7 / 4)});
  }
  return pairs;
}

void expect_interval(const RunRatio& ratio, double low, double high) {
  EXPECT_NEAR(ratio.low, low, 1e-12);
  EXPECT_NEAR(ratio.high, high, 1e-12);
}

TEST(RunRatio, OfOnePairAllowsForTheSpreadOfBoth) {
  // Spreads 1.2 / 1 and 3.6 / 2.4; medians 1.1 and 3.
  const RunRatio ratio = ratio_of_runs(Runs{{evenly(1, 1.2), evenly(2.4, 3.6)}});
  EXPECT_DOUBLE_EQ(ratio.ratio, 3 / 1.1);
  const double factor = std::pow(1.2 * 1.5, 2);
  expect_interval(ratio, 3 / 1.1 / factor, 3 / 1.1 * factor);
}

// If the extremes of long runs were excluded, 9% of identical runs would be called faster or slower
// (docs/measuring.md).
TEST(RunRatio, TheSpreadIsThatOfAllRepetitions) {
  std::vector<double> seconds(100, 1.0);
  seconds[50] = 1.5;
  const RunRatio ratio = ratio_of_runs(Runs{{seconds, std::vector<double>(6, 3.0)}});
  expect_interval(ratio, 3 / 2.25, 3 * 2.25);
}

TEST(RunRatio, OfFewPairsAllowsForTheSpreadOfAllRepetitions) {
  // Each run is steady, but A's second one is twice as slow.
  const std::vector<double> one(10, 1.0);
  const std::vector<double> two(10, 2.0);
  const RunRatio ratio = ratio_of_runs(Runs{{one, one}, {two, one}});
  EXPECT_DOUBLE_EQ(ratio.ratio, 0.75);
  expect_interval(ratio, 0.75 / 4, 0.75 * 4);
}

TEST(RunRatio, OfTenPairsIsByTheirRatios) {
  std::vector<double> ratios = {1.4, 1.1, 1.2, 1.8, 1.3, 1.7, 1.5, 1.6, 1.9};
  EXPECT_LT(ratio_of_runs(pairs_of_ratios(ratios)).low, 0.1);
  ratios.push_back(2);
  const RunRatio ratio = ratio_of_runs(pairs_of_ratios(ratios));
  EXPECT_DOUBLE_EQ(ratio.ratio, 1.55);
  expect_interval(ratio, 1.1, 2);
}

// The order statistics of the sign test's 99.8% interval, by the table of the binomial distribution
// with p = 1/2: P(X < 1) = 1/1024 of 10, P(X < 2) = 14/8192 of 13 (too much) and 15/16384 of 14,
// ...
TEST(RunRatio, RanksOfTheSignTest) {
  const std::vector<std::pair<int, int>> table = {{10, 1}, {11, 1}, {13, 1}, {14, 2},
                                                  {15, 2}, {17, 2}, {20, 3}, {50, 14}};
  for (const auto& [n, rank] : table) {
    std::vector<double> ratios;
    for (int i = 0; i < n; ++i) ratios.push_back(i % 2 == 0 ? i + 1 : n - i + (n + 1) % 2);
    expect_interval(ratio_of_runs(pairs_of_ratios(ratios)), rank, n + 1 - rank);
  }
}

TEST(RunRatio, NeedsSixRepetitionsOfEveryRun) {
  const std::vector<double> ten(10, 1.0);
  EXPECT_FALSE(std::isnan(ratio_of_runs(Runs{{ten, std::vector<double>(6, 3.0)}}).low));
  for (const auto& runs :
       {Runs{{ten, std::vector<double>(5, 3.0)}}, Runs{{std::vector<double>(5, 1.0 / 3), ten}}}) {
    const RunRatio ratio = ratio_of_runs(runs);
    EXPECT_DOUBLE_EQ(ratio.ratio, 3);
    EXPECT_TRUE(std::isnan(ratio.low));
    EXPECT_TRUE(std::isnan(ratio.high));
    EXPECT_EQ(verdict_of(ratio, 0.02), Verdict::undecided);
  }
  EXPECT_TRUE(std::isnan(ratio_of_runs({}).ratio));
}

TEST(RunRatio, NeedsTimesThatArePositiveNumbers) {
  const std::vector<double> good(10, 1.0);
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    std::vector<double> run = good;
    run[3] = bad;
    EXPECT_TRUE(std::isnan(ratio_of_runs(Runs{{run, good}}).low)) << bad;
    EXPECT_TRUE(std::isnan(ratio_of_runs(Runs{{good, run}}).high)) << bad;
  }
}

TEST(RunRatio, OfARunWithItselfIsOne) {
  const RunRatio ratio = ratio_of_runs(Runs{{evenly(1, 9), evenly(1, 9)}});
  expect_interval(ratio, 1, 1);
}

TEST(VerdictOf, NeedsAnIntervalBeyondOrWithinTheThreshold) {
  const auto verdict = [](double low, double high) { return verdict_of({1, low, high}, 0.25); };
  EXPECT_EQ(verdict(1.26, 1.5), Verdict::slower);
  EXPECT_EQ(verdict(1.25, 1.5), Verdict::undecided);
  EXPECT_EQ(verdict(0.5, 0.79), Verdict::faster);
  EXPECT_EQ(verdict(0.5, 0.8), Verdict::undecided);
  EXPECT_EQ(verdict(0.8, 1.25), Verdict::same);
  EXPECT_EQ(verdict(0.79, 1.25), Verdict::undecided);
  EXPECT_EQ(verdict(0.8, 1.26), Verdict::undecided);
}

}  // namespace
}  // namespace paceline
