#include "measure/step_trace.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using Intervals = std::vector<Interval>;

TEST(IntervalsTest, AUnionIsDisjointAndInOrder) {
  const Intervals all = union_of({{4, 6}, {0, 1}, {1, 2}, {5, 5.5}, {5, 8}, {9, 9.5}});
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].begin, 0);
  EXPECT_EQ(all[0].end, 2);
  EXPECT_EQ(all[1].begin, 4);
  EXPECT_EQ(all[1].end, 8);
  EXPECT_EQ(all[2].begin, 9);
  EXPECT_EQ(length_of(all), 6.5);
  EXPECT_TRUE(union_of({}).empty());
}

TEST(IntervalsTest, LengthCoveredByOtherIntervals) {
  const Intervals cover = {{2, 4}, {3, 5}, {8, 9}, {0, 1}};
  EXPECT_EQ(covered_length({{0, 10}}, cover), 1 + 3 + 1);
  EXPECT_EQ(covered_length({{3, 8.5}}, cover), 2 + 0.5);
  EXPECT_EQ(covered_length({{3, 8.5}, {2, 3}}, cover), 2 + 0.5 + 1);
  EXPECT_EQ(covered_length({{5, 8}, {9, 20}, {-3, 0}}, cover), 0);
  EXPECT_EQ(covered_length({{0, 10}}, {}), 0);
}

}  // namespace
}  // namespace paceline
