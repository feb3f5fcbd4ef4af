#pragma once
// SIGINT, SIGTERM, SIGUSR1 and SIGHUP (the terminal is gone) ask for an early stop: the running
// case is abandoned, finished cases are kept. Signals that were ignored when the program started
// stay ignored. Slurm sends such signals before a time limit and at preemption; mpirun forwards
// SIGUSR1.

namespace paceline {

class StopSignal {
 public:
  StopSignal();  // installs the handlers, until the process ends
  [[nodiscard]] static bool requested();
};

}  // namespace paceline
