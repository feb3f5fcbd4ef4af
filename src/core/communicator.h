#pragma once
// Communicator: collectives among the ranks of a World, enqueued on a stream of a device. A call
// returns at once. An event recorded on that stream after the call is reached when the collective
// has completed; until then the caller leaves the send and receive tensors alone. A host thread
// that waits for collectives does so in a WatchdogScope. Implemented by mpi/ for host memory (MPI)
// and GPU memory (NCCL).
//
// A rank may have several communicators, over any Worlds that it belongs to. They share the
// device's communication stream, which runs their collectives one after the other; a duplicate()
// runs on a stream of its own. All ranks issue the collectives of several communicators in the same
// order (row before column, for example), and create and destroy communicators in the same order:
// with different orders the ranks would deadlock. Memory is registered with each communicator that
// is to access it directly.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/tensor.h"
#include "core/world.h"

namespace paceline {

// avg divides the sum by the number of ranks; for integers it drops the remainder.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg };

constexpr auto names_of(ReduceOp) { return names("sum", "prod", "min", "max", "avg"); }

// mpi: host memory; nccl: GPU memory.
enum class BackendKind : std::uint8_t { mpi, nccl };
constexpr auto names_of(BackendKind) { return names("mpi", "nccl"); }

// symmetric: all ranks have registered the memory with register_memory().
enum class WindowRegistration : std::uint8_t { none, symmetric };
constexpr auto names_of(WindowRegistration) { return names("none", "symmetric"); }

// See register_memory().
inline constexpr std::int64_t registered_part_bytes = 16;

class Communicator : NonCopyable {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;  // as in its World
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual BackendKind backend() const = 0;
  [[nodiscard]] virtual Stream& stream() = 0;  // where the collectives run

  // Throws OutOfMemory if the device has less free memory than the backend may allocate in
  // duplicate() or in the first collectives. Ranks agree on the outcome before those calls, because
  // a rank that runs out of memory within them leaves the others waiting. Not collective.
  virtual void require_free_memory() {}

  // Collective: a communicator of the same ranks whose collectives run on `stream`, concurrently
  // with this communicator's.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate(Stream& stream) = 0;

  // Memory that register_memory() accepts. Throws OutOfMemory.
  [[nodiscard]] virtual Array allocate(const Shape& shape, Dtype dtype,
                                       MemoryKind kind = MemoryKind::communication) = 0;
  // Collective: registers a whole array of allocate(), of the same size on every rank. Until the
  // result is released, this communicator's collectives on tensors inside the array may access the
  // other ranks' arrays directly. The bytes that each rank contributes must then be a multiple of
  // registered_part_bytes: NCCL 2.28 puts the parts of an all_gather in wrong places otherwise.
  [[nodiscard]] virtual std::shared_ptr<void> register_memory(const Tensor& memory) = 0;

  // n: ranks. In place: `send` and `recv` are the same tensor where the shapes agree; in all_gather
  // and reduce_scatter the small tensor is this rank's slice of the large one (whose rest is
  // undefined after reduce_scatter). Either all ranks work in place or none does. reduce uses
  // `recv` on the root alone. Both tensors of send_recv have the same size.
  virtual void all_reduce(Tensor recv, Tensor send, ReduceOp op) = 0;      // [k] <- [k]
  virtual void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) = 0;  // [k] <- [n k]
  virtual void all_gather(Tensor recv, Tensor send) = 0;                   // [n k] <- [k]
  virtual void broadcast(Tensor data, int root) = 0;                       // [k]
  virtual void reduce(Tensor recv, Tensor send, ReduceOp op, int root) = 0;
  virtual void all_to_all(Tensor recv, Tensor send) = 0;  // [n k] <- [n k]
  // Sends to one rank while receiving from another.
  virtual void send_recv(Tensor recv, int source, Tensor send, int destination) = 0;
};

// The work of a collective that sends `send`, for its Scope.
[[nodiscard]] inline OpWork work_of_collective(const Tensor& send, Stream& stream) {
  return {.bytes = static_cast<double>(send.bytes()),
          .stream = &stream,
          .elements = send.numel(),
          .dtype = send.dtype};
}

// In a ring, the bytes that each rank sends over those of the whole message: (n - 1) / n.
[[nodiscard]] constexpr double ring_share(double ranks) { return (ranks - 1) / ranks; }

// The same for the operation `op`: an all_reduce is a reduce_scatter and an all_gather.
[[nodiscard]] constexpr double ring_share(std::string_view op, double ranks) {
  return (op == "all_reduce" ? 2 : 1) * ring_share(ranks);
}

// Collective over `world`: makes a communicator of the world's ranks on this rank's device. The
// device and the World's watchdog outlive the communicator; the World itself need not.
using MakeCommunicator = std::function<std::unique_ptr<Communicator>(World& world)>;

// Ranks that share an axis of a training run's layout, such as the data-parallel ranks.
struct ProcessGroup {
  World& world;                          // NOLINT: the group's ranks
  Communicator* communicator = nullptr;  // over `world`; null: the ranks exchange nothing
  Communicator* gathers = nullptr;  // a duplicate, for gathers that overlap with other collectives
};

}  // namespace paceline
