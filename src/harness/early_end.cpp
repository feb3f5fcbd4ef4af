#include "harness/early_end.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <system_error>

#include "core/device.h"
#include "core/screen.h"

namespace paceline {

namespace {

// Global, because std::terminate() passes nothing to its handler.
World* launch = nullptr;

[[noreturn]] void end_uncaught() {
  const std::exception_ptr uncaught = std::current_exception();
  if (!uncaught) std::abort();
  try {
    std::rethrow_exception(uncaught);
  } catch (const Error& error) {
    end_launch(*launch, error);
  } catch (const std::exception& error) {
    end_launch(*launch, error_of(error));
  }
}

// Global, because a signal handler can reach nothing else. Any thread may run the handler.
std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void on_stop_signal(int /*signal*/) { stop = true; }

}  // namespace

ExitCode report(const Error& error) {
  write_to(stderr, "paceline: {}{}\n", error.code() == ExitCode::internal ? "internal error: " : "",
           error.what());
  return error.code();
}

Error error_of(const std::exception& unforeseen) {
  if (dynamic_cast<const OutOfMemory*>(&unforeseen) != nullptr) {
    return EnvironmentError(
        fmt::format("out of memory outside of a case's set-up: {}; see what else uses the device",
                    unforeseen.what()));
  }
  if (dynamic_cast<const std::system_error*>(&unforeseen) == nullptr) {
    return InternalError(unforeseen.what());
  }
  return EnvironmentError(
      fmt::format("the system refuses: {}; see the limits of 'ulimit -a'", unforeseen.what()));
}

void end_launch(World& world, const Error& error) {
  std::string name = world.watchdog().current_case();
  if (!name.empty()) name = fmt::format("'{}': ", name);
  report(Error(error.code(),
               fmt::format("rank {} on {}: {}{}", world.rank(), world.host(), name, error.what())));
  world.abort(error.code());
  __builtin_unreachable();  // GCC does not see that a virtual function never returns
}

void end_launch_when_uncaught(World& world) {
  launch = &world;
  std::set_terminate(end_uncaught);
}

StopSignal::StopSignal() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    // Signals ignored before stay ignored: nohup and background jobs of shells rely on that.
    if (std::signal(signal, on_stop_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

bool StopSignal::requested() { return stop; }

}  // namespace paceline
