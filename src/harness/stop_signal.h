#pragma once
// SIGINT, SIGTERM and SIGUSR1 ask for an early stop: the case at hand is given up, finished ones
// are kept. Slurm sends these before a time limit and at preemption; mpirun forwards SIGUSR1.

namespace paceline {

class StopSignal {
 public:
  StopSignal();  // installs the handlers, for the life of the process
  [[nodiscard]] static bool requested();
};

}  // namespace paceline
