#include "harness/clock_offsets.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "core/clock.h"

namespace paceline {

std::vector<ClockOffset> clock_offsets(World& world) {
  constexpr int rounds = 10;
  std::vector<ClockOffset> offsets(static_cast<std::size_t>(world.size()));
  for (int r = 1; r < world.size(); ++r) {
    ClockOffset& best = offsets[static_cast<std::size_t>(r)];
    best.error = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
      const double asked = host_seconds();
      (void)world.broadcast("time?", 0);
      const std::string answer = world.broadcast(fmt::format("{}", host_seconds()), r);
      const double answered = host_seconds();
      const double error = (answered - asked) / 2;
      if (error < best.error) best = {std::stod(answer) - (asked + error), error};
    }
  }
  return offsets;
}

}  // namespace paceline
