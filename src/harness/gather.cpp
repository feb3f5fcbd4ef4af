#include "harness/gather.h"

#include <fmt/format.h>

namespace paceline {

std::string first_text(World& world, const std::string& mine) {
  const std::vector<std::string> all = world.gather(mine);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    return all.size() == 1 ? all[r] : fmt::format("rank {}: {}", r, all[r]);
  }
  return {};
}

}  // namespace paceline
