#include "measure/terminal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "test_terminal.h"

namespace paceline {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(pipe(ends.data()), 0); }
  [[nodiscard]] int out() const { return ends[0]; }
  [[nodiscard]] int in() const { return ends[1]; }
  std::array<int, 2> ends{};
};

// Runs `work` in a process of its own and waits for it.
void in_child(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
}

// The width of the terminal that a process finds, if any. As with mpirun, the launcher reads a pipe
// into which the process writes, and writes to `launcher_stderr`.
std::size_t width_below(int launcher_stderr, bool launcher_reads, const char* marks = nullptr) {
  const Pipe answer;
  in_child([&] {
    dup2(launcher_stderr, STDERR_FILENO);
    const Pipe forwarded;
    const auto rank = [&] {
      close(forwarded.out());
      if (marks != nullptr) setenv(marks, "1", 1);
      const Terminal terminal(STDERR_FILENO);
      const std::size_t width = terminal.found() ? terminal.width() : 0;
      (void)!::write(answer.in(), &width, sizeof width);
    };
    const auto shell = [&] {  // between the launcher and the rank; both write to the pipe
      dup2(forwarded.in(), STDERR_FILENO);
      close(forwarded.in());
      close(forwarded.out());
      in_child(rank);
    };
    if (!launcher_reads) close(forwarded.out());
    in_child(shell);
  });
  std::size_t width = 0;
  EXPECT_EQ(::read(answer.out(), &width, sizeof width), static_cast<ssize_t>(sizeof width));
  for (const int end : answer.ends) close(end);
  return width;
}

TEST(Terminal, IsTheDescriptorItself) {
  const TestTerminal of_60_columns;
  const Terminal terminal(fileno(of_60_columns.out()));
  EXPECT_TRUE(terminal.found());
  EXPECT_EQ(terminal.width(), 60U);
}

TEST(Terminal, IsThatOfTheLauncherThatReadsOurPipe) {
  const TestTerminal of_60_columns;
  EXPECT_EQ(width_below(fileno(of_60_columns.out()), true), 60U);
}

TEST(Terminal, IsNotThatOfAParentThatDoesNotReadOurPipe) {
  const TestTerminal of_60_columns;
  EXPECT_EQ(width_below(fileno(of_60_columns.out()), false), 0U);
}

TEST(Terminal, ThereIsNoneWhereTheLauncherWritesToAFile) {
  std::FILE* file = std::tmpfile();
  EXPECT_EQ(width_below(fileno(file), true), 0U);
  EXPECT_FALSE(Terminal(fileno(file)).found());
  std::fclose(file);
}

TEST(Terminal, ALineThatMpirunMarksCannotBeRewritten) {
  const TestTerminal of_60_columns;
  const int out = fileno(of_60_columns.out());
  EXPECT_EQ(width_below(out, true, "OMPI_MCA_orte_tag_output"), 0U);
  EXPECT_EQ(width_below(out, true, "OMPI_MCA_orte_timestamp_output"), 0U);
}

TEST(Terminal, AClosedDescriptorIsNone) { EXPECT_FALSE(Terminal(-1).found()); }

}  // namespace
}  // namespace paceline
