#pragma once
// What a command that measures receives from the composition root: the ranks, their devices and the
// communicators between them.

#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "record/environment.h"

namespace paceline {

// A rank's device and the factory of its communicators: MPI for host memory, NCCL for GPU memory.
struct RankDevice {
  std::unique_ptr<Device> device;
  MakeCommunicator make_communicator;
};

// Where buffers live and which library moves them. Only the first `ranks` ranks have a device and
// communicators; on the other ranks both are empty.
struct Backend : RankDevice {
  BackendKind kind = BackendKind::mpi;
  int ranks = 0;
  std::string limit_reason;  // why `ranks` is not all ranks; empty when it is
};

struct Launch {
  World& world;
  // mpi and nccl for a command that asks for backends; otherwise one, with a device on every rank.
  std::vector<Backend> backends;
  RunInfo info;             // what result files record about this launch
  std::string mpi_library;  // that the program is linked to, whether or not it is started

  [[nodiscard]] Device& device() const { return *backends.front().device; }
};

}  // namespace paceline
