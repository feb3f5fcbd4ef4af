#pragma once
// What all ranks have, on rank 0.

#include <fmt/format.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "core/clock.h"
#include "core/world.h"

namespace paceline {

// Collective: the values of all ranks, in rank order, on rank 0; empty on other ranks.
template <class T>
  requires std::is_trivially_copyable_v<T>
[[nodiscard]] std::vector<std::vector<T>> gather_values(World& world, const std::vector<T>& mine) {
  const auto* first = reinterpret_cast<const char*>(mine.data());
  std::vector<std::vector<T>> all;
  for (const std::string& part : world.gather({first, first + mine.size() * sizeof(T)})) {
    std::vector<T>& values = all.emplace_back(part.size() / sizeof(T));
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
  }
  return all;
}

// Collective: the first non-empty text, with its rank, on rank 0; empty on other ranks.
[[nodiscard]] inline std::string first_text(World& world, const std::string& mine) {
  const std::vector<std::string> all = world.gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].empty()) return all.size() == 1 ? all[r] : fmt::format("rank {}: {}", r, all[r]);
  }
  return {};
}

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
