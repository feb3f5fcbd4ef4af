#pragma once
#include <fmt/format.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

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

}  // namespace paceline
