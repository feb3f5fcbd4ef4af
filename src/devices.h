#pragma once
// The devices and communicators of a launch, and its description for the result file.

#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "harness/run_options.h"
#include "record/environment.h"

namespace paceline {

// A rank's device and the factory of its communicators: MPI for host memory, NCCL for GPU memory.
struct RankDevice {
  std::unique_ptr<Device> device;
  MakeCommunicator make_communicator;
};

// The device that --device selects, of the same kind on every rank; auto means CUDA if every rank
// can have a GPU of its own. Collective. Throws EnvironmentError if --device cuda is given and some
// rank cannot have its own GPU.
[[nodiscard]] RankDevice make_device(const RunOptions& run, World& world);

// Where buffers live and which library moves them. Only the first `ranks` ranks have a device and
// communicators; on the other ranks both are empty.
struct Backend : RankDevice {
  BackendKind kind = BackendKind::mpi;
  int ranks = 0;
  std::string limit_reason;  // why `ranks` is not all ranks; empty when it is
};

// The backends mpi (host memory) and nccl (GPU memory), in this order. A backend has no ranks if
// --device excludes it or if `wanted` is not empty and does not name it. nccl has as many of the
// first ranks as can have a GPU each. Collective. Throws like make_device().
[[nodiscard]] std::vector<Backend> make_backends(const RunOptions& run,
                                                 const std::vector<BackendKind>& wanted,
                                                 World& world);

// The MPI library that this program is linked to, whether or not this process starts it.
[[nodiscard]] std::string linked_mpi();

// What the result file records about this run. line: the command line, quoted for a shell.
// Collective. Throws if ranks have different NCCL versions.
[[nodiscard]] RunInfo describe_launch(World& world, const DeviceInfo& device,
                                      const std::string& line, const std::string& experiment);

}  // namespace paceline
