#pragma once
#include <vector>

#include "core/clock.h"
#include "core/world.h"

namespace paceline {

// A rank's clock minus rank 0's at the same moment: `seconds`, plus or minus `error`.
struct ClockOffset {
  double seconds = 0;
  double error = 0;
};

// Collective: the offsets of all ranks, on rank 0. Cristian's method: rank 0 asks each rank for its
// time and assumes that the answer is the time halfway between question and answer. The fastest of
// several rounds counts.
[[nodiscard]] std::vector<ClockOffset> clock_offsets(World& world,
                                                     double (*clock)() = host_seconds);

}  // namespace paceline
