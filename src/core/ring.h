#pragma once
// The traffic of collectives in a ring.

#include <string_view>

namespace paceline {

// The bytes that each rank sends over those of the whole message: (n - 1) / n.
[[nodiscard]] constexpr double ring_share(double ranks) { return (ranks - 1) / ranks; }

// The same for the operation `op`: an all_reduce is a reduce_scatter and an all_gather.
[[nodiscard]] constexpr double ring_share(std::string_view op, double ranks) {
  return (op == "all_reduce" ? 2 : 1) * ring_share(ranks);
}

}  // namespace paceline
