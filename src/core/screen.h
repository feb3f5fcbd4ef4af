#pragma once
// Output to the screen. If it cannot be written (full disk, closed pipe), the run continues,
// because the results are in a file; main() reports at the end that output was lost.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
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
// do not inherit the descriptor. Standard streams that are closed become /dev/null, so that no file
// of ours takes their place; opened for reading, since it is an error to lose what is written.
inline void keep_screen_for_ourselves() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
  const int kept = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  std::FILE* const own = kept < 0 ? nullptr : fdopen(kept, "w");
  if (own == nullptr) return;
  dup2(STDERR_FILENO, STDOUT_FILENO);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  screen = own;
}

// Whether all of standard output has been written.
inline bool screen_is_written() { return std::fflush(screen) == 0 && std::ferror(screen) == 0; }

// Columns of the terminal that a stream goes to, also through mpirun's standard output; 0 if there
// is none.
inline std::size_t terminal_columns(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

inline constexpr std::size_t usual_columns = 100;
// Columns of the screen's terminal, or as many as are usual.
inline std::size_t screen_columns() {
  const std::size_t columns = terminal_columns(screen);
  return columns == 0 ? usual_columns : columns;
}

template <class... Args>
void write_out(fmt::format_string<Args...> format, Args&&... args) {
  write_to(screen, format, std::forward<Args>(args)...);
}

}  // namespace paceline
