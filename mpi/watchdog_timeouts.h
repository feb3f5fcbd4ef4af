#pragma once
// The watchdog's timeouts and its clock. A wait for other ranks that never ends aborts the launch
// after at most the timeout plus the constants below.

#include <algorithm>
#include <atomic>
#include <chrono>

namespace paceline {

class WatchdogTimeouts {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds poll_interval{50};
  static constexpr std::chrono::seconds answer_timeout{2};
  // If a lower rank has timed out as well, this rank leaves the abort to it. The grace period
  // covers the lower rank's wait for answers and the launcher's shutdown; after it this rank
  // aborts, because the lower one may have died.
  static constexpr std::chrono::seconds lower_rank_grace{7};
  static constexpr std::chrono::seconds abort_timeout{1};

  explicit WatchdogTimeouts(double timeout_seconds) : timeout_(timeout_seconds) {}

  [[nodiscard]] double timeout_seconds() const { return timeout_.count(); }
  // Whether a wait that began at `since` has timed out: the other ranks are then asked about it.
  [[nodiscard]] bool has_timed_out(Clock::time_point since, Clock::time_point now) const {
    return now - since > timeout_;
  }
  // Whether a rank aborts the launch for a wait that has timed out and still lasts. It asked the
  // other ranks at asked_at. lower_rank_asked_at: Clock::time_point::min() if no lower rank asked.
  [[nodiscard]] static bool should_abort(Clock::time_point asked_at,
                                         Clock::time_point lower_rank_asked_at,
                                         Clock::time_point now) {
    return now > asked_at + answer_timeout && now > lower_rank_asked_at + lower_rank_grace;
  }

 private:
  std::chrono::duration<double> timeout_;
};

// A clock that stops while the watchdog's thread does not run, on an overloaded machine or after
// SIGSTOP: waits of a process that could not run do not time out.
class UnsuspendedClock {
 public:
  using TimePoint = WatchdogTimeouts::Clock::time_point;

  // The most that one tick() advances, however long the thread has slept.
  static constexpr auto longest_tick = 4 * WatchdogTimeouts::poll_interval;

  explicit UnsuspendedClock(TimePoint now) : now_(now), last_tick_(now) {}

  // The watchdog's thread calls it at every poll.
  void tick(TimePoint steady_now) {
    now_.store(
        now() + std::min<WatchdogTimeouts::Clock::duration>(steady_now - last_tick_, longest_tick),
        std::memory_order_relaxed);
    last_tick_ = steady_now;
  }
  // Any thread may call it.
  [[nodiscard]] TimePoint now() const { return now_.load(std::memory_order_relaxed); }

 private:
  std::atomic<TimePoint> now_;
  TimePoint last_tick_;
};

}  // namespace paceline
