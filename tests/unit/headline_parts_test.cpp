#include "measure/headline_parts.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

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

}  // namespace
}  // namespace paceline
