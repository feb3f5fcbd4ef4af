#pragma once
// Deadline: the time limit of MPI_Init_thread() and MPI_Finalize(), which wait for every rank. The
// watchdog cannot guard them: its ranks ask each other over MPI.

#include <string>
#include <thread>

#include "mpi/mpi_world.h"

namespace paceline {

class Deadline {
 public:
  // Unless it is destroyed within the timeout and 20 s, a thread prints that `call` did not finish
  // and ends this process with ExitCode::collective.
  Deadline(std::string call, const LaunchTimeout& timeout);

 private:
  std::jthread thread_;
};

}  // namespace paceline
