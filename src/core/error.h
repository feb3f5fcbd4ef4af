#pragma once
// Exit codes and the exceptions that carry them. main() prints an Error as one line on stderr and
// exits with its code, on every rank.

#include <stdexcept>
#include <string>
#include <string_view>

namespace paceline {

enum class ExitCode : int {
  done = 0,
  usage = 2,        // unknown option, bad value, unreadable input
  environment = 3,  // no GPU, shared GPU, ranks that do not see each other
  mismatch = 4,     // a check failed, or training diverged
  collective = 5,   // a rank or a collective failed or timed out
  stopped = 6,      // a signal, or an output that cannot be written; results so far are saved
  internal = 7,
};

// Replaces control characters by escapes: a line break by "\n", the escape character by "\x1b".
[[nodiscard]] std::string without_control_characters(std::string_view text);

// what() is one line without a final full stop: the error and its remedy. Control characters in
// quoted names are escaped, so that they neither break the line nor control the terminal.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& what)
      : std::runtime_error(without_control_characters(what)), code_(code) {}
  [[nodiscard]] ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

template <ExitCode exit_code>
class ErrorOf : public Error {
 public:
  explicit ErrorOf(const std::string& what) : Error(exit_code, what) {}
};

using UsageError = ErrorOf<ExitCode::usage>;
using EnvironmentError = ErrorOf<ExitCode::environment>;
using StoppedError = ErrorOf<ExitCode::stopped>;
using InternalError = ErrorOf<ExitCode::internal>;

}  // namespace paceline
