#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

// World over MPI: initialises it, asking for MPI_THREAD_MULTIPLE, and finalises it at the end.
// Throws EnvironmentError when the library does not give that, or when srun started more tasks
// than MPI sees (it was built without PMIx).
[[nodiscard]] std::unique_ptr<World> make_mpi_world(int* argc, char*** argv);

}  // namespace paceline
