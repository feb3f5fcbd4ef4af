#pragma once
// Command: the first word of the command line, with its options. The registry lists all of them.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "harness/option_parser.h"

namespace paceline {

class Command : NonCopyable {
 public:
  virtual ~Command() = default;

  // What --help prints above the options.
  [[nodiscard]] virtual std::string usage() const = 0;
  virtual void declare(OptionParser& p) = 0;
  // After parsing. Throws UsageError for options that cannot stand together.
  virtual void check(const OptionParser& p) = 0;
  // Seconds that ranks wait for each other.
  [[nodiscard]] virtual double timeout() const = 0;
  // A command that measures runs on every rank, collectively; one that reads files on rank 0 alone,
  // which has no world where it is the only process.
  [[nodiscard]] virtual bool measures() const { return true; }
  // `line`: the whole command line, quoted for a shell.
  [[nodiscard]] virtual ExitCode run(World* world, const std::string& line) = 0;
};

struct Registration {
  std::string_view name;
  std::string_view summary;
  std::unique_ptr<Command> (*make)();
};

// Every command, in the order of the overview; experiments/registry.cpp.
[[nodiscard]] std::span<const Registration> registry();

}  // namespace paceline
