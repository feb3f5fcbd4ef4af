#pragma once
// World: the ranks of a launch and their control messages. Watchdog: ends the run when a wait that
// involves other ranks takes too long. Implemented by mpi/.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"
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

// The outcome of a case, from best to worst. The ranks agree on the worst.
enum class Status : std::uint8_t { ok, skipped, oom, diverged, mismatch, stopped };
constexpr auto names_of(Status) {
  return names("ok", "skipped", "oom", "diverged", "mismatch", "stopped");
}

class World : NonCopyable {
 public:
  virtual ~World() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int local_rank() const = 0;  // among this World's ranks on this node
  [[nodiscard]] virtual int local_size() const = 0;
  // The total of cores that this World's ranks on this node may use.
  [[nodiscard]] virtual int usable_cores() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual std::string library() const = 0;  // "Open MPI 4.1.4"

  // Collective: all ranks of this World call these functions in the same order. Ranks that belong
  // to several Worlds call the functions of all of them in the same order. Errors of the underlying
  // library are thrown as Error with ExitCode::collective.
  virtual void barrier() = 0;
  [[nodiscard]] virtual Status agree(Status mine) = 0;  // the worst of all ranks'
  [[nodiscard]] virtual double max(double mine) = 0;
  // Returns all ranks' bytes in rank order on rank 0, and an empty vector on the others.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Returns the bytes of rank `root` on every rank.
  [[nodiscard]] virtual std::string broadcast(const std::string& mine, int root) = 0;

  // Collective: a barrier that sleeps instead of polling and has no timeout. Ranks that take no
  // part in a case wait here for the others.
  virtual void wait_idle() = 0;
  // Collective: returns the World of the ranks that pass the same color, ordered by key and then by
  // rank in this World; null for a negative color. The result shares this World's watchdog and may
  // outlive this World.
  [[nodiscard]] virtual std::unique_ptr<World> split(int color, int key) = 0;

  [[nodiscard]] virtual Watchdog& watchdog() = 0;

  // Ends all ranks at once, when the ranks can no longer agree on an error. Not collective.
  [[noreturn]] virtual void abort(ExitCode code) = 0;
};

// This host's name; Slurm's name of the node if there is one, as several nodes may be one machine.
[[nodiscard]] std::string node_name();

// "rank 3", "ranks 1, 3"; lists at most eight, then " and 5 more".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

// Collective: runs `work` on every rank. If it throws an Error on any rank, all ranks throw the
// error with the highest exit code, with the message of the lowest rank that threw it. The message
// names that rank if it was the only one.
void collectively(World& world, const std::function<void()>& work);

}  // namespace paceline
