#pragma once
// How a launch ends early: by an error, which reaches the user as one line on stderr and the exit
// code, or by a signal.
//
// An exception other than Error is not caught while ranks run: unwinding would free memory that
// other threads of the rank, such as those of its streams, still use. std::terminate() prints the
// line instead and ends the launch.

#include <exception>

#include "core/error.h"
#include "core/world.h"

namespace paceline {

// Prints "paceline: ..." and returns the error's code.
ExitCode report(const Error& error);

// EnvironmentError for what the system refuses, memory of the device, a thread that cannot be
// started or a file that cannot be examined; otherwise InternalError.
[[nodiscard]] Error error_of(const std::exception& unforeseen);

// For an error of this rank alone: prints it with rank, host and case, and aborts the launch, since
// other ranks may be waiting for this one.
[[noreturn]] void end_launch(World& world, const Error& error);

// Until the process ends: an exception that nobody catches, in any thread, ends the launch.
void end_launch_when_uncaught(World& world);

// SIGINT, SIGTERM, SIGUSR1 and SIGHUP (the terminal is gone) ask for an early stop: the running
// case is abandoned, finished cases are kept. Signals that were ignored when the program started
// stay ignored. Slurm sends such signals before a time limit and at preemption; mpirun forwards
// SIGUSR1.
class StopSignal {
 public:
  StopSignal();  // installs the handlers, until the process ends
  [[nodiscard]] static bool requested();
};

}  // namespace paceline
