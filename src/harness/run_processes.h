#pragma once
// A process for each run of a sweep: the cost of a first step can be measured once per process, and
// MPI can be initialized once. The parent initializes neither MPI nor a device. An environment
// variable tells each child which run it executes. Each child adds its cases to the result file,
// and the next child resumes from that file.

#include <optional>
#include <string>

#include "core/error.h"
#include "harness/command.h"

namespace paceline {

// The contents of that environment variable.
struct RunProcess {
  std::size_t run = 0;  // of the sweep, from 0
  std::string output;   // the sweep's result file
};
// For this process; nullopt if no such parent has started it. Throws UsageError if the variable is
// malformed.
[[nodiscard]] std::optional<RunProcess> run_process();
// In a child: the end of the parent, even by SIGKILL, is a request for an early stop.
void stop_with_parent();

// A child that is not the last exits with this plus its exit code.
constexpr int more_runs_follow = 64;

// Runs the command line in children until the last run has ended. Standard output is that of the
// last child. Signals that ask for an early stop are forwarded. Returns the worst exit code.
[[nodiscard]] int run_in_processes(const ParsedCommand& parsed, char** argv);

}  // namespace paceline
