#pragma once
#include <mpi.h>

#include "core/world.h"

namespace paceline {

// The MPI communicator of the world's control messages; the world owns it. world: of an MPI launch.
[[nodiscard]] MPI_Comm communicator_of(World& world);

}  // namespace paceline
