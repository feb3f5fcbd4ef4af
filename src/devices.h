#pragma once
// Which devices and communicators this launch has.

#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/world.h"
#include "experiments/collectives/collectives.h"
#include "harness/options.h"

namespace paceline {

// What --device names: of every rank the same kind. Collective. Throws EnvironmentError when cuda
// is asked for and not every rank can have a GPU of its own.
[[nodiscard]] std::unique_ptr<Device> make_device(const RunOptions& run, World& world);

// Of all ranks: MPI for the CPU's memory, NCCL for GPUs'. Collective.
[[nodiscard]] std::unique_ptr<Communicator> make_communicator(World& world, Device& device);

// mpi (host memory) and nccl (GPU memory), as --device allows and where `wanted` names them or is
// empty: nccl for as many of the first ranks as can have a GPU each. Collective. Throws as
// make_device().
[[nodiscard]] std::vector<Backend> make_backends(const RunOptions& run,
                                                 const std::vector<std::string>& wanted,
                                                 World& world);

}  // namespace paceline
