#pragma once
// The command line: which command, with which options. See README.md and `paceline --help`.

#include <memory>
#include <string>

#include "harness/command.h"

namespace paceline {

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
