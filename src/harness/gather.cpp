#include "harness/gather.h"

#include <fmt/format.h>

#include <limits>
#include <string>

namespace paceline {

std::vector<ClockOffset> clock_offsets(World& world, double (*clock)()) {
  constexpr int rounds = 10;
  std::vector<ClockOffset> offsets(static_cast<std::size_t>(world.size()));
  for (int r = 1; r < world.size(); ++r) {
    ClockOffset& best = offsets[static_cast<std::size_t>(r)];
    best.error = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
      const double asked = clock();
      (void)world.broadcast("time?", 0);
      const std::string answer = world.broadcast(fmt::format("{}", clock()), r);
      const double answered = clock();
      const double error = (answered - asked) / 2;
      if (error < best.error) best = {std::stod(answer) - (asked + error), error};
    }
  }
  return offsets;
}

}  // namespace paceline
