#include "mpi/patience.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Clock = Patience::Clock;

constexpr Clock::time_point start{1h};
constexpr Clock::time_point never = Clock::time_point::min();

TEST(Patience, AWaitIsLateAfterTheTimeout) {
  const Patience patience(1.5);
  EXPECT_EQ(patience.timeout_seconds(), 1.5);
  EXPECT_FALSE(patience.is_late(start, start));
  EXPECT_FALSE(patience.is_late(start, start + 1500ms));
  EXPECT_TRUE(patience.is_late(start, start + 1501ms));
}

TEST(Patience, WhoAskedSpeaksOnceAnswersHadTheirTime) {
  EXPECT_FALSE(Patience::should_abort(start, never, start));
  EXPECT_FALSE(Patience::should_abort(start, never, start + 2s));
  EXPECT_TRUE(Patience::should_abort(start, never, start + 2001ms));
}

TEST(Patience, ALowerRankThatAskedHasTheWordForSomeTime) {
  EXPECT_FALSE(Patience::should_abort(start, start + 100ms, start + 3s));
  EXPECT_FALSE(Patience::should_abort(start, start + 100ms, start + 7100ms));
  EXPECT_TRUE(Patience::should_abort(start, start + 100ms, start + 7101ms));
  EXPECT_FALSE(Patience::should_abort(start, start - 6s, start + 2s));  // answers all the same
}

// Seconds from the begin of a wait that never ends until the launch is aborted, by a thread that
// looks as the watchdog's does.
double seconds_until_abort(double timeout, bool lower_rank_asks) {
  const Patience patience(timeout);
  Clock::time_point now = start;
  while (!patience.is_late(start, now)) now += Patience::look_every;
  const Clock::time_point asked_at = now;
  while (!Patience::should_abort(asked_at, lower_rank_asks ? asked_at : never, now)) {
    now += Patience::look_every;
  }
  return std::chrono::duration<double>(now + Patience::abort_timeout - start).count();
}

TEST(Patience, AWaitThatNeverEndsEndsTheLaunchSoonAfterTheTimeout) {
  for (const double timeout : {0.5, 3.0, 120.0}) {
    EXPECT_GT(seconds_until_abort(timeout, false), timeout);
    EXPECT_LT(seconds_until_abort(timeout, false), timeout + 3.2);
    EXPECT_LT(seconds_until_abort(timeout, true), timeout + 8.2);
  }
}

TEST(LivedTime, StandsStillWhileItsThreadDoes) {
  LivedTime time(start);
  for (int i = 1; i <= 20; ++i) time.look(start + i * Patience::look_every);
  EXPECT_EQ(time.now(), start + 1s);
  time.look(start + 31s);
  EXPECT_EQ(time.now(), start + 1s + LivedTime::longest_step);
  time.look(start + 31s + Patience::look_every);
  EXPECT_EQ(time.now(), start + 1s + LivedTime::longest_step + Patience::look_every);
}

}  // namespace
}  // namespace paceline
