#include "harness/gather.h"

#include <fmt/format.h>

#include <cstring>

namespace paceline {

std::vector<std::vector<double>> gather_doubles(World& world, const std::vector<double>& mine) {
  const auto* first = reinterpret_cast<const char*>(mine.data());
  const std::string bytes(first, first + mine.size() * sizeof(double));
  std::vector<std::vector<double>> all;
  for (const std::string& part : world.gather(bytes)) {
    std::vector<double>& values = all.emplace_back(part.size() / sizeof(double));
    if (!part.empty()) std::memcpy(values.data(), part.data(), part.size());
  }
  return all;
}

std::string first_text(World& world, const std::string& mine) {
  const std::vector<std::string> all = world.gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    return all.size() == 1 ? all[r] : fmt::format("rank {}: {}", r, all[r]);
  }
  return {};
}

}  // namespace paceline
