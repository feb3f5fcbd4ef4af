#include "experiments/collectives/link_ceiling.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "experiments/collectives/collective_check.h"
#include "harness/case_run.h"

namespace paceline {

namespace {

// Collective. The rate, in bytes/s, at which a rank receives a message of about `bytes` bytes: the
// best of five repetitions, each timed on the slowest rank. 0 if a rank runs out of memory.
double receive_rate(const Collective& op, Device& device, World& world, Communicator& communicator,
                    std::int64_t bytes) {
  constexpr int repetitions = 5;
  const std::int64_t k = bytes / static_cast<std::int64_t>(sizeof(float)) / world.size();
  const auto allocate = [&](const Shape& shape, Dtype dtype) {
    return device.allocate(shape, dtype, MemoryKind::communication);
  };
  std::unique_ptr<CollectiveBuffers> buffers;
  Stream& stream = communicator.stream();
  const auto make = [&] {
    buffers = std::make_unique<CollectiveBuffers>(device, allocate, op, Dtype::f32, k, world.rank(),
                                                  world.size(), !op.out_of_place);
    buffers->fill(Pattern(world.size(), false, ReduceOp::sum, 0));
    communicator.require_free_memory();
  };
  const auto connect = [&] {
    const WatchdogScope watchdog_scope(world.watchdog(), "connecting the ranks");
    op.start(communicator, buffers->call());
    stream.synchronize();
  };
  CaseRecord unused;
  if (!fits_in_memory(world, unused, {}, make) || !fits_in_memory(world, unused, {}, connect)) {
    return 0;
  }
  double shortest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repetitions; ++i) {
    world.barrier();
    const WatchdogScope watchdog_scope(world.watchdog(), "measuring the links");
    const EventPtr begin = stream.record();
    op.start(communicator, buffers->call());
    const EventPtr end = stream.record();
    stream.synchronize();
    shortest = std::min(shortest, world.max(end->seconds_since(*begin)));
  }
  return static_cast<double>(buffers->call().recv.bytes()) / shortest;
}

}  // namespace

double link_ceiling(Device& device, World& world, Communicator& communicator) {
  double best = 0;
  if (world.size() > 1) {
    const int largest = communicator.backend() == BackendKind::nccl ? 30 : 26;
    for (const std::int64_t bytes : {1 << largest, 1 << (largest - 3), 1 << (largest - 6)}) {
      for (const char* op : {"send_recv", "broadcast"}) {
        best =
            std::max(best, receive_rate(collective_named(op), device, world, communicator, bytes));
      }
    }
  }
  return best > 0 ? best : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace paceline
