#include "experiments/gather.h"

#include <fmt/format.h>

#include <cstring>

namespace paceline {

std::vector<std::vector<double>> gather_doubles(World& world, const std::vector<double>& mine) {
  std::string bytes(mine.size() * sizeof(double), '\0');
  std::memcpy(bytes.data(), mine.data(), bytes.size());
  std::vector<std::vector<double>> all;
  for (const std::string& part : world.gather(bytes)) {
    std::vector<double>& values = all.emplace_back(part.size() / sizeof(double));
    std::memcpy(values.data(), part.data(), part.size());
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
