#pragma once
// World: the ranks of one launch, and how they agree. Implemented by mpi/.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"
#include "core/non_copyable.h"

namespace paceline {

// How a case ended, from best to worst: ranks that agree take the worst.
enum class Status : std::uint8_t { ok, skipped, oom, diverged, mismatch, stopped };
constexpr auto names_of(Status) {
  return names("ok", "skipped", "oom", "diverged", "mismatch", "stopped");
}

// What the watch's own thread looks after: it asks every now and then.
class Guarded : NonCopyable {
 public:
  virtual ~Guarded() = default;

  // What went wrong by itself, which ends the run; empty while all is well.
  [[nodiscard]] virtual std::string failure() = 0;
  // The run ends: whoever waits in it need not any more. Nothing else is called after it.
  virtual void abort() = 0;
};

// What a thread is in while it is Watched.
enum class WaitFor : std::uint8_t {
  // One call, which returns once the other ranks have come to it, too.
  ranks,
  // The host's part of collectives, from enqueueing them until it knows that they have ended: a
  // step. Between two of them the host may compute.
  collectives,
};

// Ends the run when something that all ranks must reach takes too long, or fails by itself.
//
// A wait for ranks is too long once it has stood for the timeout. A wait for collectives says
// nothing of collectives in host memory, each of which is a wait for ranks of its own, on the
// thread that runs it. It counts only while something is guarded, as GPU collectives are; then it
// is too long once no other wait of this rank has begun for the timeout.
class Watch : NonCopyable {
 public:
  virtual ~Watch() = default;

  // This thread waits from begin() to end(); waits of a thread nest. what: "all_reduce of 1 MB", as
  // the message names it: ranks in the same wait use the same text. Cheap: no lock that another
  // rank could hold, no system call.
  virtual void begin(std::string_view what, WaitFor whom) = 0;
  virtual void end() = 0;

  // What the ranks are at, for the message: "all_reduce 1MB"; empty: nothing in particular.
  virtual void at(std::string_view work) = 0;

  // From guard() to release() `guarded` is looked after.
  virtual void guard(Guarded& guarded) = 0;
  virtual void release(Guarded& guarded) = 0;
};

// A wait from construction to destruction.
class Watched : NonCopyable {
 public:
  Watched(Watch& watch, std::string_view what, WaitFor whom = WaitFor::collectives)
      : watch_(watch) {
    watch_.begin(what, whom);
  }
  ~Watched() { watch_.end(); }

 private:
  Watch& watch_;
};

class World : NonCopyable {
 public:
  virtual ~World() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int local_rank() const = 0;  // among this World's ranks of this node
  [[nodiscard]] virtual int local_size() const = 0;
  // Cores that this World's ranks of this node may use, all together.
  [[nodiscard]] virtual int usable_cores() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual std::string library() const = 0;  // "Open MPI 4.1.4"

  // Collective: every rank of this World calls each of these in the same order. Ranks that are in
  // several Worlds call those of all of them in one order. What the library underneath reports is
  // thrown as an Error of ExitCode::collective.
  virtual void barrier() = 0;
  [[nodiscard]] virtual Status agree(Status mine) = 0;  // the worst of all ranks
  [[nodiscard]] virtual double max(double mine) = 0;
  // Rank 0 gets every rank's bytes in rank order; other ranks get an empty vector.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Every rank gets rank `root`'s bytes.
  [[nodiscard]] virtual std::string broadcast(const std::string& mine, int root) = 0;

  // Collective: waits for all ranks without keeping a core busy, for as long as it takes: ranks
  // that have nothing to do in a case wait here for the others.
  virtual void wait_idle() = 0;
  // Collective: the World of the ranks that pass the same color, ordered by key and, where keys are
  // equal, by their rank here. Null for a negative color, which stands for no World. The result has
  // this World's watch, and may outlive this World.
  [[nodiscard]] virtual std::unique_ptr<World> split(int color, int key) = 0;

  [[nodiscard]] virtual Watch& watch() = 0;

  // Ends every rank at once: for what cannot be agreed on any more. Not collective.
  [[noreturn]] virtual void abort(ExitCode code) = 0;
};

// "rank 3", "ranks 1, 3"; beyond eight, how many more.
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

// Collective: runs `work` on every rank; if it throws an Error on any, every rank throws the worst
// (the lowest such rank's message, which then names the rank when others were fine).
void collectively(World& world, const std::function<void()>& work);

}  // namespace paceline
