#pragma once
// Output to the screen. If it cannot be written (full disk, closed pipe), the run continues,
// because the results are in a file; main() reports at the end that output was lost.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <utility>

namespace paceline {

template <class... Args>
void write_to(std::FILE* stream, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stream);
}

// Standard output, as far as lines of ours go there. Global, because functions of every folder
// print.
inline std::FILE* screen = stdout;

// Moves `screen` to a descriptor of its own, and standard output to stderr: there goes what
// libraries print, such as NCCL with NCCL_DEBUG; by whole lines, between which ours stand. Children
// do not inherit the descriptor.
inline void keep_screen_for_ourselves() {
  const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  std::FILE* const own = kept < 0 ? nullptr : fdopen(kept, "w");
  if (own == nullptr) return;
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  screen = own;
}

template <class... Args>
void write_out(fmt::format_string<Args...> format, Args&&... args) {
  write_to(screen, format, std::forward<Args>(args)...);
}

}  // namespace paceline
