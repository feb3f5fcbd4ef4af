#pragma once
// Communicator: collectives enqueued on a device's communication stream. A call returns at once
// with the event of its end; send and receive tensors stay untouched until then. Implemented by
// mpi/ for host memory (MPI) and GPU memory (NCCL).

#include <cstdint>
#include <memory>
#include <string_view>

#include "core/device.h"
#include "core/tensor.h"

namespace paceline {

enum class ReduceOp : std::uint8_t { sum, prod, min, max, avg };

class Communicator {
 public:
  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual std::string_view backend() const = 0;  // "mpi" or "nccl"

  // n ranks. `send` and `recv` may be the same tensor (in place) where the shapes agree; for
  // all_gather and reduce_scatter in place, the small tensor is this rank's slice of the large one.
  virtual EventPtr all_reduce(Tensor recv, Tensor send, ReduceOp op) = 0;      // [k] <- [k]
  virtual EventPtr reduce_scatter(Tensor recv, Tensor send, ReduceOp op) = 0;  // [k] <- [n k]
  virtual EventPtr all_gather(Tensor recv, Tensor send) = 0;                   // [n k] <- [k]
  virtual EventPtr broadcast(Tensor data, int root) = 0;                       // [k]
  virtual EventPtr reduce(Tensor recv, Tensor send, ReduceOp op, int root) = 0;
  virtual EventPtr all_to_all(Tensor recv, Tensor send) = 0;  // [n k] <- [n k]
  // Sends to one rank while receiving from another.
  virtual EventPtr send_recv(Tensor recv, int source, Tensor send, int destination) = 0;
};

}  // namespace paceline
