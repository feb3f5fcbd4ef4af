#include "mpi/deadline.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <utility>

#include "core/error.h"
#include "core/screen.h"
#include "mpi/watchdog_timeouts.h"

namespace paceline {

namespace {

// On a busy machine ranks need seconds to start, even where their collectives take milliseconds.
constexpr std::chrono::seconds start_allowance{20};

}  // namespace

Deadline::Deadline(std::string call, const LaunchTimeout& timeout)
    : thread_([call = std::move(call), timeout](const std::stop_token& stop) {
        using Clock = WatchdogTimeouts::Clock;
        const std::chrono::duration<double> limit =
            std::chrono::duration<double>(timeout.seconds) + start_allowance;
        const auto grace =
            timeout.reports ? std::chrono::seconds(0) : WatchdogTimeouts::lower_rank_grace;
        const Clock::time_point begin = Clock::now();
        UnsuspendedClock clock(begin);
        std::mutex mutex;
        std::condition_variable_any wake;  // notified by the stop request alone
        std::unique_lock lock(mutex);
        while (clock.now() - begin <= limit + grace) {
          wake.wait_for(lock, stop, WatchdogTimeouts::poll_interval, [] { return false; });
          if (stop.stop_requested()) return;
          clock.tick(Clock::now());
        }
        write_to(
            stderr,
            "paceline: {} did not finish in {:g} s: a rank has not called it; see whether every "
            "rank runs this command line, or raise --timeout\n",
            call, limit.count());
        _exit(static_cast<int>(ExitCode::collective));
      }) {}

}  // namespace paceline
