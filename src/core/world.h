#pragma once
// World: the ranks of one launch, and how they agree. Implemented by mpi/.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace paceline {

// How a case ended, from best to worst: ranks that agree take the worst.
enum class Status : std::uint8_t { ok, skipped, oom, mismatch, stopped };

[[nodiscard]] std::string_view name_of(Status status);
// Throws InternalError for an unknown name.
[[nodiscard]] Status status_named(std::string_view name);

class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int local_rank() const = 0;  // among the ranks of this node
  [[nodiscard]] virtual int local_size() const = 0;
  // Cores that the ranks of this node may use, all together.
  [[nodiscard]] virtual int usable_cores() const = 0;
  [[nodiscard]] virtual std::string host() const = 0;
  [[nodiscard]] virtual std::string library() const = 0;  // "Open MPI 4.1.4"

  // Collective: every rank calls each of these in the same order.
  virtual void barrier() = 0;
  [[nodiscard]] virtual Status agree(Status mine) = 0;  // the worst of all ranks
  [[nodiscard]] virtual double max(double mine) = 0;
  // Rank 0 gets every rank's bytes in rank order; other ranks get an empty vector.
  [[nodiscard]] virtual std::vector<std::string> gather(const std::string& mine) = 0;
  // Every rank gets rank `root`'s bytes.
  [[nodiscard]] virtual std::string broadcast(const std::string& mine, int root) = 0;

  // Ends every rank at once: for what cannot be agreed on any more. Not collective.
  [[noreturn]] virtual void abort(ExitCode code) = 0;
};

// Collective: runs `work` on every rank; if it throws an Error on any, every rank throws the worst
// (the lowest such rank's message, which then names the rank when others were fine).
void collectively(World& world, const std::function<void()>& work);

}  // namespace paceline
