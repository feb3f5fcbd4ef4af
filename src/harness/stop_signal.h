#pragma once
// SIGINT, SIGTERM, SIGUSR1 and SIGHUP (the terminal is gone) ask for an early stop: the case at
// hand is given up, finished ones are kept. Those that were ignored when the program started stay
// so. Slurm sends these before a time limit and at preemption; mpirun forwards SIGUSR1.

namespace paceline {

// Of these signals, for the life of the process.
void handle_stop_signals(void (*handler)(int));

class StopSignal {
 public:
  StopSignal();  // installs the handlers, for the life of the process
  [[nodiscard]] static bool requested();
};

}  // namespace paceline
