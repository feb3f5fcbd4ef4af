#include "mpi/watchdog_timeouts.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

using namespace std::chrono_literals;
using Clock = WatchdogTimeouts::Clock;

constexpr Clock::time_point start{1h};
constexpr Clock::time_point never = Clock::time_point::min();

TEST(WatchdogTimeouts, AWaitTimesOutAfterTheTimeout) {
  const WatchdogTimeouts timeouts(1.5);
  EXPECT_EQ(timeouts.timeout_seconds(), 1.5);
  EXPECT_FALSE(timeouts.has_timed_out(start, start));
  EXPECT_FALSE(timeouts.has_timed_out(start, start + 1500ms));
  EXPECT_TRUE(timeouts.has_timed_out(start, start + 1501ms));
}

TEST(WatchdogTimeouts, TheAskingRankAbortsAfterTheAnswerTimeout) {
  EXPECT_FALSE(WatchdogTimeouts::should_abort(start, never, start));
  EXPECT_FALSE(WatchdogTimeouts::should_abort(start, never, start + 2s));
  EXPECT_TRUE(WatchdogTimeouts::should_abort(start, never, start + 2001ms));
}

TEST(WatchdogTimeouts, ALowerRankThatAskedHasAGracePeriod) {
  EXPECT_FALSE(WatchdogTimeouts::should_abort(start, start + 100ms, start + 3s));
  EXPECT_FALSE(WatchdogTimeouts::should_abort(start, start + 100ms, start + 7100ms));
  EXPECT_TRUE(WatchdogTimeouts::should_abort(start, start + 100ms, start + 7101ms));
  EXPECT_FALSE(WatchdogTimeouts::should_abort(start, start - 6s,
                                              start + 2s));  // answers are due all the same
}

// Seconds from the begin of a wait that never ends until the launch is aborted, by a thread that
// polls as the watchdog's does.
double seconds_until_abort(double timeout, bool lower_rank_asks) {
  const WatchdogTimeouts timeouts(timeout);
  Clock::time_point now = start;
  while (!timeouts.has_timed_out(start, now)) now += WatchdogTimeouts::poll_interval;
  const Clock::time_point asked_at = now;
  while (!WatchdogTimeouts::should_abort(asked_at, lower_rank_asks ? asked_at : never, now)) {
    now += WatchdogTimeouts::poll_interval;
  }
  return std::chrono::duration<double>(now + WatchdogTimeouts::abort_timeout - start).count();
}

TEST(WatchdogTimeouts, AWaitThatNeverEndsAbortsTheLaunchSoonAfterTheTimeout) {
  for (const double timeout : {0.5, 3.0, 120.0}) {
    EXPECT_GT(seconds_until_abort(timeout, false), timeout);
    EXPECT_LT(seconds_until_abort(timeout, false), timeout + 3.2);
    EXPECT_LT(seconds_until_abort(timeout, true), timeout + 8.2);
  }
}

TEST(UnsuspendedClock, StopsWhileItsThreadDoes) {
  UnsuspendedClock clock(start);
  for (int i = 1; i <= 20; ++i) clock.tick(start + i * WatchdogTimeouts::poll_interval);
  EXPECT_EQ(clock.now(), start + 1s);
  clock.tick(start + 31s);
  EXPECT_EQ(clock.now(), start + 1s + UnsuspendedClock::longest_tick);
  clock.tick(start + 31s + WatchdogTimeouts::poll_interval);
  EXPECT_EQ(clock.now(),
            start + 1s + UnsuspendedClock::longest_tick + WatchdogTimeouts::poll_interval);
}

}  // namespace
}  // namespace paceline
