#pragma once
#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"

namespace paceline {

// Collective. The highest rate, in bytes/s, at which a rank receives from others: the best of three
// sizes and five repetitions each, in a send_recv ring and in a broadcast. NaN for one rank, or if
// no size fits in memory.
[[nodiscard]] double link_ceiling(Device& device, World& world, Communicator& communicator);

}  // namespace paceline
