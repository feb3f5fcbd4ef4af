#pragma once
// What main() knows of NCCL; mpi/stub/ answers where the program is built without it.

#include <memory>
#include <string>

#include "core/communicator.h"
#include "core/world.h"
#include "cuda/cuda_backend.h"

namespace paceline {

// "2.28.9", of the library that is loaded; empty without NCCL.
[[nodiscard]] std::string nccl_version();

// Collectives in GPU memory through NCCL, one after the other on the device's communication stream.
// The world's watchdog polls it for asynchronous errors and aborts it before it ends the launch.
// The watchdog does not see single calls: it checks the WatchdogScope of the host thread that waits
// for them. After the launch of a graph of captured calls, the caller waits for the graph before it
// makes a call outside the graph.
//
// Collective over `world`, whose ranks have a GPU each: `device`. It and the world's watchdog
// outlive the communicator. Throws Error of ExitCode::collective for what NCCL reports.
//
// Every call throws InternalError, before it enqueues anything, for tensors that do not fit or
// overlap other than in place. all_to_all and send_recv in place copy `send` first.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(World& world, GpuDevice& device);

}  // namespace paceline
