#pragma once
// WaitRegistry: the active waits of this rank's threads, which the watchdog's thread reads.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/watchdog.h"
#include "mpi/watchdog_timeouts.h"

namespace paceline {

// One per process.
class WaitRegistry {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t text_size = 64;  // with the final zero; longer texts are cut

  struct Wait {
    std::uint64_t id;  // from 1, unique within the rank
    Clock::time_point since;
    WaitFor target;
    std::string what;
  };

  // The waits of a thread nest. No lock and no system call.
  void begin(std::string_view what, WaitFor target);
  void end();
  [[nodiscard]] std::vector<Wait> active() const;
  // Waits are timed by this clock; the watchdog's thread advances it.
  [[nodiscard]] UnsuspendedClock& clock() { return clock_; }
  // The number of waits that have begun so far.
  [[nodiscard]] std::uint64_t begun() const { return begun_.load(std::memory_order_relaxed); }

 private:
  // Written by the thread that has taken it, and read as a seqlock: the watchdog's thread reads the
  // id, the other fields, and the id again, and drops what it read if the id has changed.
  struct Slot {
    std::atomic<bool> taken = false;
    std::atomic<std::uint64_t> id = 0;  // 0: no active wait
    std::atomic<Clock::time_point> since = Clock::time_point();
    std::atomic<WaitFor> target = WaitFor::ranks;
    std::array<std::atomic<char>, text_size> what{};
    Slot* outer = nullptr;  // the enclosing wait of the same thread
  };

  static thread_local Slot* innermost;

  UnsuspendedClock clock_{Clock::now()};
  std::array<Slot, 32> slots_;
  std::atomic<std::uint64_t> begun_ = 0;
};

}  // namespace paceline
