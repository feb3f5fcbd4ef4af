#pragma once
#include <memory>

#include "core/world.h"

namespace paceline {

struct LaunchTimeout {
  double seconds = 120;
  // Whether this process prints the line of MPI_Init_thread() and MPI_Finalize() when they exceed
  // it; one that does not waits a few seconds longer for the one that does.
  bool reports = true;
};

// Initialises MPI with MPI_THREAD_MULTIPLE and returns the World of all ranks. MPI is finalised
// when this world and all worlds split from it are destroyed. A wait that exceeds the timeout ends
// every rank with ExitCode::collective; for ranks to start and to end the limit is 20 s longer.
// Throws EnvironmentError if the library does not support MPI_THREAD_MULTIPLE.
[[nodiscard]] std::unique_ptr<World> make_mpi_world(int* argc, char*** argv,
                                                    const LaunchTimeout& timeout = {});

}  // namespace paceline
