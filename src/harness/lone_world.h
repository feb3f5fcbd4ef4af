#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// A World of this process only, without MPI. It never waits for other ranks and has no watchdog.
[[nodiscard]] std::unique_ptr<World> make_lone_world();

}  // namespace paceline
