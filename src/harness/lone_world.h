#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// A World of this process alone, without MPI: nobody is waited for, so its watch watches nothing.
[[nodiscard]] std::unique_ptr<World> make_lone_world();

}  // namespace paceline
