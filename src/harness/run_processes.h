#pragma once
// A process for each run of a sweep: what a first step costs can be measured once in a process, and
// MPI can be started once. The parent starts neither MPI nor a device. It tells each child by a
// variable of the environment which run is its own; a child that is not the last leaves its cases
// in the result file, for the next to go on from.

#include <optional>
#include <string>

#include "core/error.h"
#include "harness/command.h"

namespace paceline {

// What a parent tells its child.
struct RunProcess {
  std::size_t run = 0;  // of the sweep, from 0
  std::string output;   // the sweep's result file
};
// Of this process; nothing where no such parent has started it. Throws UsageError where the
// variable holds something else.
[[nodiscard]] std::optional<RunProcess> run_process();

// How a child that is not the last ends: with its exit code above this.
constexpr int more_runs_follow = 64;

// Runs the command line in children until the last run has ended. Standard output is the last
// child's. Signals that ask for an early stop are handed on. Returns the worst of their exit codes.
[[nodiscard]] int run_in_processes(const ParsedCommand& parsed, char** argv);

}  // namespace paceline
