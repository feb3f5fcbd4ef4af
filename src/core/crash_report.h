#pragma once
// HDF5 trusts its input: a damaged or hostile file can crash it.

#include <array>
#include <csignal>
#include <string_view>

#include "core/non_copyable.h"

namespace paceline {

// While it exists, a crash of this process prints "paceline: FILE crashes HDF5: it is damaged" and
// ends it with ExitCode::usage. One at a time.
class CrashReport : NonCopyable {
 public:
  explicit CrashReport(std::string_view file);  // with its option: "--tokens: t.h5"
  ~CrashReport();

 private:
  static constexpr std::array signals = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  std::array<struct sigaction, signals.size()> previous_;
};

}  // namespace paceline
