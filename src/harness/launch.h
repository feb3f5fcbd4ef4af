#pragma once
// The processes of one launch: how many there are before MPI is up, and whether all of them were
// started with the same command line.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/world.h"
#include "harness/option_parser.h"

namespace paceline {

// By the launcher's variables; nothing without a launcher.
[[nodiscard]] std::optional<int> launched_processes();

// True for rank 0 of a launcher, by the launcher's variables, and for a process without one.
[[nodiscard]] bool speaks_for_launch();

// A launcher that sees one process fail ends the others: the silent ones let the speaker finish
// its line first. Returns the code.
[[nodiscard]] int wait_for_speaker(ExitCode code);

// What one rank was started as.
struct CommandLine {
  std::string version;     // of the program
  std::string experiment;  // empty where the command line was refused
  GivenOptions options;
  std::optional<Error> refusal;
};

// Why these command lines, by rank, cannot run together, with the ranks concerned; nothing where
// they can. --memory-limit alone may differ: it describes a rank's device.
[[nodiscard]] std::optional<Error> disagreement(const std::vector<CommandLine>& lines);

// Throws EnvironmentError where srun started other than `ranks` tasks: without PMIx, Open MPI 5
// makes each a launch of its own. Ranks of mpirun within a Slurm job are not srun's.
void require_all_tasks(int ranks);

// Collective. Throws UsageError on every rank unless all have the same value: "what: a (rank 0), b
// (ranks 1, 2); advice".
void require_same(World& world, std::string_view what, const std::string& mine,
                  std::string_view advice);

// Collective. Throws disagreement()'s error on every rank.
void require_same_command_line(World& world, const CommandLine& mine);

}  // namespace paceline
