#pragma once
// World: the ranks of a launch and their control messages. Implemented by mpi/.

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
