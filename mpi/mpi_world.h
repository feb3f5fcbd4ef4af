#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// Initialises MPI with MPI_THREAD_MULTIPLE and returns the World of all ranks. MPI is finalised
// when this world and all worlds split from it are destroyed. A wait that exceeds the timeout ends
// every rank with ExitCode::collective. Throws EnvironmentError if the library does not support
// MPI_THREAD_MULTIPLE.
[[nodiscard]] std::unique_ptr<World> make_mpi_world(int* argc, char*** argv,
                                                    double timeout_seconds = 120);

}  // namespace paceline
