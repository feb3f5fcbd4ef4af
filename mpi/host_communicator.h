#pragma once
#include <memory>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"

namespace paceline {

// Collectives in host memory through MPI, on an MPI communicator of their own. They run one after
// the other on the device's communication stream, a worker thread, so that calls return at once, as
// with a GPU stream. The thread is in a WatchdogScope during each collective. MPI errors are thrown
// by the stream's synchronize(), as Error with ExitCode::collective. Half types are reduced in
// float and rounded after each combination of two values.
//
// Collective over `world`, any World of an MPI launch. The device and the World's watchdog outlive
// the communicator.
//
// Calls throw before they enqueue anything: UsageError if an all_gather, all_to_all or send_recv
// has a tensor of more than INT_MAX elements; InternalError for tensors whose sizes do not match or
// that overlap other than in place.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(World& world, Device& device);

}  // namespace paceline
