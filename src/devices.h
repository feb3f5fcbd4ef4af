#pragma once
// Which devices and communicators this launch has, and what describes it.

#include <memory>
#include <string>
#include <vector>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"
#include "harness/run_options.h"
#include "record/environment.h"

namespace paceline {

// A rank's device. Its communicators are MPI's for host memory, NCCL's for a GPU's.
struct RankDevice {
  std::unique_ptr<Device> device;
  MakeCommunicator make_communicator;
};

// What --device names: of every rank the same kind. Collective. Throws EnvironmentError when cuda
// is asked for and not every rank can have a GPU of its own.
[[nodiscard]] RankDevice make_device(const RunOptions& run, World& world);

// Where buffers live and what moves them: of the first `ranks` ranks; the others have neither.
struct Backend : RankDevice {
  BackendKind kind = BackendKind::mpi;
  int ranks = 0;
  std::string limit_reason;  // why `ranks` is not all ranks; empty when it is
};

// mpi (host memory) and nccl (GPU memory), as --device allows and where `wanted` names them or is
// empty: nccl for as many of the first ranks as can have a GPU each. Collective. Throws as
// make_device().
[[nodiscard]] std::vector<Backend> make_backends(const RunOptions& run,
                                                 const std::vector<BackendKind>& wanted,
                                                 World& world);

// Collective: what to record of this run. line: the command line, quoted for a shell.
[[nodiscard]] RunInfo describe_launch(World& world, const DeviceInfo& device,
                                      const std::string& line, const std::string& experiment);

}  // namespace paceline
