#pragma once
// Command: the first word of the command line, with its options. The registry lists all of them.
// See README.md and `paceline --help`.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "harness/option_parser.h"
#include "harness/run_options.h"

namespace paceline {

class Command : NonCopyable {
 public:
  virtual ~Command() = default;

  virtual void declare(OptionParser& p) = 0;
  // After parsing. Throws UsageError for options that cannot be combined.
  virtual void check(const OptionParser& /*p*/) {}
  // A command that measures runs on every rank, collectively; one that reads files on rank 0 alone,
  // which has no world where it is the only process.
  [[nodiscard]] virtual bool measures() const { return true; }
  // Every run is to be the first of its process: see harness/run_processes.h.
  [[nodiscard]] virtual bool separates_runs() const { return false; }
  // Whether one that measures has something to exchange or to time beside other ranks: if not, it
  // does not start MPI where it is the only process.
  [[nodiscard]] virtual bool needs_mpi() const { return true; }
  // `line`: the whole command line, quoted for a shell.
  [[nodiscard]] virtual ExitCode run(World* world, const std::string& line) = 0;

  // What a result file says of the factors of its cases.
  [[nodiscard]] virtual std::vector<FactorNote> factor_notes() const { return {}; }

  [[nodiscard]] const RunOptions& run_options() const { return run_; }

 protected:
  RunOptions run_;
};

struct Registration {
  std::string_view name;
  std::string_view summary;  // in the overview, and above the options in --help
  std::unique_ptr<Command> (*make)();
};

// Every command, in the order of the overview; experiments/registry.cpp.
[[nodiscard]] std::span<const Registration> registry();

struct ParsedCommand {
  // "model"; "--help", "--version" or "model --help", so that ranks that differ in it disagree
  std::string name;
  std::string answer;  // the help or version asked for
  std::string line;    // the whole command line, quoted for a shell
  GivenOptions given;
  std::unique_ptr<Command> command;  // null where there is an answer
};

// Throws UsageError naming the option and what would be right.
[[nodiscard]] ParsedCommand parse_command_line(int argc, char** argv);

}  // namespace paceline
