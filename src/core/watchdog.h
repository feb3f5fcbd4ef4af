#pragma once
// Watchdog: ends the run when a wait that involves other ranks takes too long. Implemented by mpi/.

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "core/non_copyable.h"

namespace paceline {

// Something that can fail asynchronously and that the watchdog must abort before it ends the run:
// an NCCL communicator. The watchdog calls both functions, in threads of its own.
class Abortable : NonCopyable {
 public:
  virtual ~Abortable() = default;

  // The asynchronous error that ends the run; empty if there is none.
  [[nodiscard]] virtual std::string async_error() = 0;
  // Releases every thread that waits in it. No other function is called afterwards.
  virtual void abort() = 0;
};

// What a WatchdogScope covers.
enum class WaitFor : std::uint8_t {
  // One call that returns only after the other ranks have made it too.
  ranks,
  // A step: from enqueueing collectives until the host knows that they have completed. The host may
  // compute between two of them.
  collectives,
};

// Ends the run when a wait for other ranks exceeds the timeout, or when an Abortable fails.
//
// A wait for ranks times out when it has lasted for the timeout. A wait for collectives makes
// progress as long as this rank begins other waits: it times out when none has begun for the
// timeout. It is checked only while an Abortable is monitored, as NCCL communicators are: their
// collectives run on the GPU and are not waits of their own. A collective in host memory is one, in
// the thread that runs it.
class Watchdog : NonCopyable {
 public:
  virtual ~Watchdog() = default;

  // The calling thread waits from begin_wait() to end_wait(); the waits of a thread nest. what:
  // the operation as the timeout message names it, "all_reduce of 1 MB"; ranks in the same
  // operation pass the same text.
  virtual void begin_wait(std::string_view what, WaitFor target) = 0;
  virtual void end_wait() = 0;

  virtual void monitor(Abortable& abortable) = 0;
  virtual void stop_monitoring(Abortable& abortable) = 0;

  // The current case, which the lines that end the run name: "all_reduce 1MB"; empty: none. Any
  // thread may call both functions.
  void set_current_case(std::string_view name) {
    const std::lock_guard lock(case_mutex_);
    current_case_ = name;
  }
  [[nodiscard]] std::string current_case() const {
    const std::lock_guard lock(case_mutex_);
    return current_case_;
  }

 private:
  mutable std::mutex case_mutex_;
  std::string current_case_;
};

// A wait that lasts from construction to destruction.
class WatchdogScope : NonCopyable {
 public:
  WatchdogScope(Watchdog& watchdog, std::string_view what, WaitFor target = WaitFor::collectives)
      : watchdog_(watchdog) {
    watchdog_.begin_wait(what, target);
  }
  ~WatchdogScope() { watchdog_.end_wait(); }

 private:
  Watchdog& watchdog_;
};

// For a single process, and for tests: never ends the run.
class NoWatchdog final : public Watchdog {
 public:
  void begin_wait(std::string_view /*what*/, WaitFor /*target*/) override {}
  void end_wait() override {}
  void monitor(Abortable& /*abortable*/) override {}
  void stop_monitoring(Abortable& /*abortable*/) override {}
};

}  // namespace paceline
