#pragma once
// One case of `collectives` on the ranks that take part: buffers, checks, timed calls.

#include <memory>

#include "core/communicator.h"
#include "core/world.h"
#include "experiments/collectives/collectives.h"
#include "harness/case_run.h"

namespace paceline {

// Buffer sets that calls use in turn. Warm: 1. Cold: one for every call of a repetition, or fewer
// that together exceed twice the cache.
[[nodiscard]] std::int64_t buffer_sets(const CollectiveCase& c, std::int64_t cache_bytes);

// world: the ranks that take part. link_ceiling: bytes/s. All arguments outlive the run.
[[nodiscard]] std::unique_ptr<CaseRun> collective_run(const CollectiveCase& c, World& world,
                                                      Device& device, Communicator& communicator,
                                                      double link_ceiling);

// Collective. The highest rate, in bytes/s, at which a rank receives from others: the best of three
// sizes and five repetitions each, in a send_recv ring and in a broadcast. NaN for one rank, or if
// no size fits in memory.
[[nodiscard]] double link_ceiling(Device& device, World& world, Communicator& communicator);

}  // namespace paceline
