#pragma once
// World: the ranks of one launch, and how they agree. Implemented by mpi/.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/enum_names.h"
#include "core/error.h"
#include "core/non_copyable.h"
#include "core/watchdog.h"

namespace paceline {

// How a case ended, from best to worst: ranks that agree take the worst.
enum class Status : std::uint8_t { ok, skipped, oom, diverged, mismatch, stopped };
constexpr auto names_of(Status) {
  return names("ok", "skipped", "oom", "diverged", "mismatch", "stopped");
}

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
  // this World's watchdog, and may outlive this World.
  [[nodiscard]] virtual std::unique_ptr<World> split(int color, int key) = 0;

  [[nodiscard]] virtual Watchdog& watchdog() = 0;

  // Ends every rank at once: for what cannot be agreed on any more. Not collective.
  [[noreturn]] virtual void abort(ExitCode code) = 0;
};

// "rank 3", "ranks 1, 3"; beyond eight, how many more.
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

// Collective: runs `work` on every rank; if it throws an Error on any, every rank throws the worst
// (the lowest such rank's message, which then names the rank when others were fine).
void collectively(World& world, const std::function<void()>& work);

}  // namespace paceline
