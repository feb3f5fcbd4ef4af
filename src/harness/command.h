#pragma once
// Command: the first word of the command line, with its options. src/registry.cpp lists all
// commands. See README.md and `paceline --help`.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/non_copyable.h"
#include "harness/launch.h"
#include "harness/option_parser.h"
#include "harness/run_options.h"

namespace paceline {

class Command : NonCopyable {
 public:
  virtual ~Command() = default;

  virtual void declare(OptionParser& p) = 0;
  // Called after parsing. Throws UsageError for options that cannot be combined.
  virtual void check(const OptionParser& /*p*/) {}
  // A command that measures runs collectively, on every rank; another one on rank 0 only.
  [[nodiscard]] virtual bool measures() const { return true; }
  // Whether a command that measures communicates with other ranks or is timed beside them. If not,
  // it does not start MPI when it is the only process.
  [[nodiscard]] virtual bool needs_mpi() const { return true; }
  // The backends that it measures, each with a device; empty: all that there are. None: it needs
  // one device a rank, which --device selects.
  [[nodiscard]] virtual std::optional<std::vector<BackendKind>> backends() const { return {}; }
  // launch: null for a command that does not measure.
  [[nodiscard]] virtual ExitCode run(Launch* launch) = 0;

  // Units and descriptions of the factors, for the result file.
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

struct ParsedCommand {
  // "model", "--help", "--version" or "model --help": ranks must agree on it
  std::string name;
  std::string answer;  // the text of --help or --version
  std::string line;    // the whole command line, quoted for a shell
  GivenOptions given;
  GivenOptions of_preset;            // those of `given` that only the preset gives
  std::unique_ptr<Command> command;  // null if there is an answer

  [[nodiscard]] bool measures() const { return command && command->measures(); }
};

// The error with the preset's name if it is about an option that only the preset gives.
[[nodiscard]] Error with_preset(const Error& error, const ParsedCommand& parsed);

// Throws UsageError, with the option and the values that it takes.
[[nodiscard]] ParsedCommand parse_command_line(std::span<const Registration> commands, int argc,
                                               char** argv);

}  // namespace paceline
