#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// World over MPI: initialises it, asking for MPI_THREAD_MULTIPLE; MPI is finalised with the last of
// this world and those made from it. What is watched and takes longer than the timeout ends every
// rank with ExitCode::collective. Throws EnvironmentError when the library does not give that
// thread support.
[[nodiscard]] std::unique_ptr<World> make_mpi_world(int* argc, char*** argv,
                                                    double timeout_seconds = 120);

}  // namespace paceline
