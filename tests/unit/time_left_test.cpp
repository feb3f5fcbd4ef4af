#include "measure/time_left.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

TEST(TimeLeft, NothingIsKnownBeforeTheFirstRepetition) {
  TimeLeft left({1, 1});
  EXPECT_FALSE(left.seconds(0));
  left.begin_case(0, 0);
  EXPECT_FALSE(left.seconds(5));
  left.begin_repetitions(5);
  EXPECT_FALSE(left.seconds(6));
}

TEST(TimeLeft, OfOneCaseIsWhatItsRepetitionsTake) {
  TimeLeft left({1});
  left.begin_case(0, 0);
  left.begin_repetitions(100);  // set-up counts once
  left.repetitions_done(0.25, 103);
  EXPECT_DOUBLE_EQ(left.seconds(103).value_or(NAN), 9);
  left.repetitions_done(1, 112);
  EXPECT_DOUBLE_EQ(left.seconds(112).value_or(NAN), 0);
  left.end_case();
  EXPECT_DOUBLE_EQ(left.seconds(112).value_or(NAN), 0);
}

TEST(TimeLeft, OfCasesToComeFollowsTheirWork) {
  TimeLeft left({1, 10, 10});
  left.begin_case(0, 0);
  left.begin_repetitions(2);
  left.repetitions_done(0.5, 3);
  // 1 s of this case; for each other case 2 s of set-up and 20 s of repetitions.
  EXPECT_DOUBLE_EQ(left.seconds(3).value_or(NAN), 1 + 2 * (2 + 20));
  left.repetitions_done(1, 4);
  left.end_case();
  EXPECT_DOUBLE_EQ(left.seconds(4).value_or(NAN), 2 * (2 + 20));
  left.begin_case(1, 4);
  EXPECT_DOUBLE_EQ(left.seconds(5).value_or(NAN), 1 + 20 + 22);  // 1 s of the set-up is over
  EXPECT_DOUBLE_EQ(left.seconds(50).value_or(NAN), 20 + 22);     // longer than the first set-up
}

TEST(TimeLeft, SmallCasesTeachTheLatencyThatWorkDoesNotExplain) {
  TimeLeft left({1, 2, 100});
  for (std::size_t i = 0; i < 2; ++i) {
    left.begin_case(i, 0);
    left.begin_repetitions(0);
    left.repetitions_done(1, 10 + static_cast<double>(i));  // 10 s, 11 s: 9 + work
    left.end_case();
  }
  EXPECT_NEAR(left.seconds(20).value_or(NAN), 109, 1e-6);
}

TEST(TimeLeft, CasesThatEndWithoutRepetitionsTeachNothing) {
  TimeLeft left({1, 1, 1});
  left.begin_case(0, 0);
  left.end_case();  // out of memory
  EXPECT_FALSE(left.seconds(3));
  left.begin_case(1, 3);
  left.begin_repetitions(4);
  left.repetitions_done(0.5, 6);
  EXPECT_DOUBLE_EQ(left.seconds(6).value_or(NAN), 2 + (1 + 4));
}

TEST(TimeLeft, CasesOfUnknownWorkCountAlike) {
  for (const double unknown : {-1.0, static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    TimeLeft left({5, unknown});
    left.begin_case(0, 0);
    left.begin_repetitions(1);
    left.repetitions_done(1, 3);
    EXPECT_DOUBLE_EQ(left.seconds(3).value_or(NAN), 1 + 2);
  }
}

TEST(TimeLeft, ACaseThatAnothersRepetitionsServeTakesNothing) {
  TimeLeft left({5, 0, 5, 0});
  left.begin_case(0, 0);
  left.begin_repetitions(1);
  left.repetitions_done(0.5, 2);
  EXPECT_DOUBLE_EQ(left.seconds(2).value_or(NAN), 1 + 1 + 2);
}

}  // namespace
}  // namespace paceline
