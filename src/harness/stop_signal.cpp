#include "harness/stop_signal.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace paceline {

namespace {

// Global, because a signal handler can reach nothing else. Any thread may run the handler.
std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_stop_signal(int /*signal*/) { stop = true; }

}  // namespace

StopSignal::StopSignal() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    // Signals ignored before stay ignored: nohup and background jobs of shells rely on that.
    if (std::signal(signal, on_stop_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

bool StopSignal::requested() { return stop; }

}  // namespace paceline
