#pragma once
#include <vector>

#include "core/clock.h"
#include "core/world.h"

namespace paceline {

// A rank's clock less rank 0's at the same moment: within `error` of `seconds`.
struct ClockOffset {
  double seconds = 0;
  double error = 0;
};

// Collective: of every rank, on rank 0. Cristian's method: rank 0 asks each rank for its time and
// takes the answer for that of the middle between question and answer; of several the fastest.
[[nodiscard]] std::vector<ClockOffset> clock_offsets(World& world,
                                                     double (*clock)() = host_seconds);

}  // namespace paceline
