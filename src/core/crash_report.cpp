#include "core/crash_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string>

#include "core/error.h"

namespace paceline {

namespace {

std::string line;  // a signal handler must not make it

void print_and_exit(int /*signal*/) {
  (void)!write(STDERR_FILENO, line.data(), line.size());
  _exit(static_cast<int>(ExitCode::usage));
}

}  // namespace

CrashReport::CrashReport(std::string_view file) {
  line = without_control_characters(fmt::format("paceline: {} crashes HDF5: it is damaged", file));
  line += '\n';
  struct sigaction action {};
  action.sa_handler = print_and_exit;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &action, &previous_[i]);
  }
}

CrashReport::~CrashReport() {
  for (std::size_t i = 0; i < signals.size(); ++i) {
    sigaction(signals[i], &previous_[i], nullptr);
  }
}

}  // namespace paceline
