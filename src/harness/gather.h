#pragma once
#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

// Collective: every rank's values in rank order on rank 0, nothing elsewhere.
[[nodiscard]] std::vector<std::vector<double>> gather_doubles(World& world,
                                                              const std::vector<double>& mine);

// Collective: on rank 0 the first text that is not empty, with its rank; nothing elsewhere.
[[nodiscard]] std::string first_text(World& world, const std::string& mine);

}  // namespace paceline
