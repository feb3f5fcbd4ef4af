#pragma once
#include <memory>
#include <string>

#include "core/error.h"
#include "core/world.h"

namespace paceline {

struct LaunchTimeout {
  double seconds = 120;
  // Whether this process prints the error when MPI_Init_thread() or MPI_Finalize() exceeds the
  // timeout. The other processes wait a few seconds longer, so that the line is printed.
  bool reports = true;
};

// Prints the error with which MPI could not start, and returns the exit code.
using ReportFailedStart = ExitCode (*)(const Error& error);

// Initialises MPI with MPI_THREAD_MULTIPLE and returns the World of all ranks. MPI is finalised
// when this world and all worlds split from it are destroyed. A wait that exceeds the timeout ends
// every rank with ExitCode::collective; initialisation and finalisation have 20 s more.
// Throws EnvironmentError if the library does not support MPI_THREAD_MULTIPLE. Where initialisation
// fails, Open MPI ends the process: with the code that `report` returns.
[[nodiscard]] std::unique_ptr<World> make_mpi_world(int* argc, char*** argv,
                                                    const LaunchTimeout& timeout = {},
                                                    ReportFailedStart report = nullptr);

// "Open MPI v4.1.4"; also before MPI is initialised.
[[nodiscard]] std::string mpi_library();

}  // namespace paceline
