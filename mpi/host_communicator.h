#pragma once
#include <memory>

#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"

namespace paceline {

// Collectives in host memory through MPI, on an MPI communicator of their own, one after the other
// on the device's communication stream (a worker thread): the caller goes on, as beside a GPU
// stream. That thread is in a WatchdogScope during each of them.
// What MPI reports is thrown by that stream's synchronize(), as an Error of ExitCode::collective.
// Half types are reduced in float, rounded after each combination of two values.
//
// Collective over `world`, any World of an MPI launch. The device and the World's watchdog outlive
// the communicator.
//
// Every call throws before it enqueues anything: UsageError where an all_gather, all_to_all or
// send_recv has a tensor of more than INT_MAX elements, InternalError for tensors that do not fit
// or overlap other than in place. After a reduce_scatter in place the rest of `send` is undefined.
// The other ranks of a reduce may leave `recv` empty. Both tensors of a send_recv have one size.
[[nodiscard]] std::unique_ptr<Communicator> make_host_communicator(World& world, Device& device);

}  // namespace paceline
