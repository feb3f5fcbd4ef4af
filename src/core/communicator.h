#pragma once
// Communicator: collectives among the ranks of a World, enqueued on a stream of a device. A call
// returns at once. An event recorded on that stream after the call is reached when the collective
// has completed; until then the caller leaves the send and receive tensors alone. A host thread
// that waits for collectives does so in a WatchdogScope. Implemented by mpi/ for host memory (MPI)
// and GPU memory (NCCL).
//
// A rank may have several communicators, of any Worlds that it is in. They share the device's
// communication stream, which runs their collectives one after the other; a duplicate() has a
// stream of its own. Collectives of several communicators are issued in one order on all ranks
// (say, a row's before a column's), and communicators are made and destroyed in one order: in
// different orders ranks would wait for each other forever. Memory is registered per communicator,
// with each that is to reach it directly.

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/tensor.h"
#include "core/world.h"

namespace paceline {

// avg divides the sum by the number of ranks; of integers it drops the remainder.
enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg };

constexpr auto names_of(ReduceOp) { return names("sum", "prod", "min", "max", "avg"); }

// mpi: between the ranks' host memory; nccl: between their GPUs'.
enum class BackendKind : std::uint8_t { mpi, nccl };
constexpr auto names_of(BackendKind) { return names("mpi", "nccl"); }

// symmetric: all ranks have registered the memory, see register_memory().
enum class WindowRegistration : std::uint8_t { none, symmetric };
constexpr auto names_of(WindowRegistration) { return names("none", "symmetric"); }

inline constexpr std::int64_t registered_part_bytes = 16;

class Communicator : NonCopyable {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;  // as in its World
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual BackendKind backend() const = 0;
  [[nodiscard]] virtual Stream& stream() = 0;  // where the collectives run

  // Collective: a communicator of the same ranks, whose collectives run on this stream, beside
  // those of this one.
  [[nodiscard]] virtual std::unique_ptr<Communicator> duplicate(Stream& stream) = 0;

  // Memory that register_memory() takes, beside the device's own. Throws OutOfMemory.
  [[nodiscard]] virtual Array allocate(const Shape& shape, Dtype dtype,
                                       MemoryKind kind = MemoryKind::communication) = 0;
  // Collective, with a whole array of allocate(), of one size on every rank: until the result is
  // released, this communicator's collectives on tensors within it may reach the other ranks'
  // directly. What a rank contributes must then be a multiple of registered_part_bytes: NCCL 2.28
  // puts other parts of an all_gather in wrong places.
  [[nodiscard]] virtual std::shared_ptr<void> register_memory(const Tensor& memory) = 0;

  // n ranks. `send` and `recv` may be the same tensor (in place) where the shapes agree; for
  // all_gather and reduce_scatter in place, the small tensor is this rank's slice of the large one
  // (of which the rest is undefined after reduce_scatter). All ranks choose in place alike. recv of
  // a reduce counts on the root alone; both tensors of send_recv have the same size.
  virtual void all_reduce(Tensor recv, Tensor send, ReduceOp op) = 0;      // [k] <- [k]
  virtual void reduce_scatter(Tensor recv, Tensor send, ReduceOp op) = 0;  // [k] <- [n k]
  virtual void all_gather(Tensor recv, Tensor send) = 0;                   // [n k] <- [k]
  virtual void broadcast(Tensor data, int root) = 0;                       // [k]
  virtual void reduce(Tensor recv, Tensor send, ReduceOp op, int root) = 0;
  virtual void all_to_all(Tensor recv, Tensor send) = 0;  // [n k] <- [n k]
  // Sends to one rank while receiving from another.
  virtual void send_recv(Tensor recv, int source, Tensor send, int destination) = 0;
};

// Of a call that sends this, for its Scope.
[[nodiscard]] inline OpWork work_of_collective(const Tensor& send, Stream& stream) {
  return {.bytes = static_cast<double>(send.bytes()),
          .stream = &stream,
          .elements = send.numel(),
          .dtype = send.dtype};
}

// Collective over `world`: makes a communicator of its ranks on this rank's device. The device and
// the World's watchdog outlive the communicator; the World itself need not.
using MakeCommunicator = std::function<std::unique_ptr<Communicator>(World& world)>;

// Ranks that share an axis of a training run's layout, such as the data-parallel ranks.
struct ProcessGroup {
  World& world;                          // NOLINT: of these ranks
  Communicator* communicator = nullptr;  // of the same; null: they exchange nothing
  Communicator* gathers = nullptr;       // a duplicate, for what is gathered beside other exchanges
};

}  // namespace paceline
