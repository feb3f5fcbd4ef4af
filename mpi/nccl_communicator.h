#pragma once
// The interface to NCCL. mpi/stub/ implements it in builds without NCCL.

#include <memory>
#include <string>

#include "core/communicator.h"
#include "core/world.h"
#include "cuda/cuda_backend.h"

namespace paceline {

// The version of the loaded library, "2.28.9"; empty without NCCL.
[[nodiscard]] std::string nccl_version();

// Limits collectives on symmetric windows to 8 thread blocks. Products that run at the same time
// then have more multiprocessors, which is faster (src/parallel/NOTES.md). Applies to the process;
// call it before the first communicator. NCCL_SYM_CTAS in the environment takes precedence.
void limit_window_blocks();

// Collectives in GPU memory through NCCL, one after the other on the device's communication stream.
// The world's watchdog polls it for asynchronous errors and aborts it before it ends the launch.
// The watchdog does not see single calls: it checks the WatchdogScope of the host thread that waits
// for them. After the launch of a graph of captured calls, the caller waits for the graph before it
// makes a call outside the graph.
//
// Collective over `world`; every rank has a GPU of its own. The device and the world's watchdog
// outlive the communicator. Throws Error with ExitCode::collective for NCCL errors, and OutOfMemory
// if NCCL runs out of memory. If only some ranks do, the others wait until the timeout; therefore
// require_free_memory() demands as much free memory as creating the communicator took, at most 2
// GB.
//
// Calls throw InternalError, before they enqueue anything, for tensors whose sizes do not match or
// that overlap other than in place. all_to_all and send_recv in place copy `send` first.
[[nodiscard]] std::unique_ptr<Communicator> make_nccl_communicator(World& world, GpuDevice& device);

}  // namespace paceline
