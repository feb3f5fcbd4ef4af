#pragma once
// The watchdog's intervals. A wait for other ranks that never ends aborts the launch after at most
// the timeout plus these.

#include <algorithm>
#include <atomic>
#include <chrono>

namespace paceline {

class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds look_every{50};
  static constexpr std::chrono::seconds answer_timeout{2};
  // If a lower rank has timed out as well, this rank leaves the abort to it. The grace period
  // covers the lower rank's wait for answers and the launcher's shutdown; after it this rank
  // aborts, because the lower one may have died.
  static constexpr std::chrono::seconds lower_rank_grace{7};
  static constexpr std::chrono::seconds abort_timeout{1};

  explicit Patience(double timeout_seconds) : timeout_(timeout_seconds) {}

  [[nodiscard]] double timeout_seconds() const { return timeout_.count(); }
  // Whether a wait that began then has stood for too long: the other ranks are asked about it.
  [[nodiscard]] bool is_late(Clock::time_point since, Clock::time_point now) const {
    return now - since > timeout_;
  }
  // Whether a rank aborts the launch for a wait that it asked the others about and that still
  // stands. lower_rank_asked_at: Clock::time_point::min() if no lower rank asked.
  [[nodiscard]] static bool should_abort(Clock::time_point asked_at,
                                         Clock::time_point lower_rank_asked_at,
                                         Clock::time_point now) {
    return now > asked_at + answer_timeout && now > lower_rank_asked_at + lower_rank_grace;
  }

 private:
  std::chrono::duration<double> timeout_;
};

// The time that the watchdog's thread has lived through. It stands still while that thread does, on
// a loaded machine or after SIGSTOP: a rank that could not run has not waited.
class LivedTime {
 public:
  using TimePoint = Patience::Clock::time_point;

  // Of one look, however long the thread then sleeps.
  static constexpr auto longest_step = 4 * Patience::look_every;

  explicit LivedTime(TimePoint now) : now_(now), looked_at_(now) {}

  // By the thread alone, at every look.
  void look(TimePoint clock) {
    now_.store(now() + std::min<Patience::Clock::duration>(clock - looked_at_, longest_step),
               std::memory_order_relaxed);
    looked_at_ = clock;
  }
  // By any thread.
  [[nodiscard]] TimePoint now() const { return now_.load(std::memory_order_relaxed); }

 private:
  std::atomic<TimePoint> now_;
  TimePoint looked_at_;
};

}  // namespace paceline
