#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// A World of this process alone, without MPI: it waits for no other rank and has no watchdog.
[[nodiscard]] std::unique_ptr<World> make_lone_world();

}  // namespace paceline
