#pragma once
#include "core/communicator.h"
#include "core/device.h"
#include "core/world.h"

namespace paceline {

// Collective: the most bytes per second that a rank takes in from others, at the best of a few
// sizes and times: from its neighbour while every rank does, or in a broadcast. NaN for one rank,
// and where no size fits.
[[nodiscard]] double link_ceiling(Device& device, World& world, Communicator& communicator);

}  // namespace paceline
