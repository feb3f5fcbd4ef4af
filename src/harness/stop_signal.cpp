#include "harness/stop_signal.h"

#include <csignal>
#include <initializer_list>

namespace paceline {

namespace {

volatile std::sig_atomic_t stop = 0;  // global, because a signal handler can reach nothing else

extern "C" void on_stop_signal(int /*signal*/) { stop = 1; }

}  // namespace

void handle_stop_signals(void (*handler)(int)) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    // Signals ignored before stay ignored: nohup and background jobs of shells rely on that.
    if (std::signal(signal, handler) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

StopSignal::StopSignal() { handle_stop_signals(on_stop_signal); }

bool StopSignal::requested() { return stop != 0; }

}  // namespace paceline
