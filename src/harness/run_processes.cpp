#include "harness/run_processes.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "core/screen.h"
#include "core/units.h"
#include "harness/stop_signal.h"
#include "harness/sweep_results.h"

namespace paceline {

namespace {

constexpr std::string_view variable = "PACELINE_RUN_PROCESS";  // "RUN:OUTPUT"

// Globals, because a signal handler can reach nothing else. Any thread may run the handler.
std::atomic<pid_t> running_child = 0;
std::atomic<int> stop_signal = 0;  // the signal that asked for an early stop
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void hand_on(int signal) {
  stop_signal = signal;
  // Read once: kill(0, signal) would signal every process of the group.
  if (const pid_t child = running_child; child > 0) kill(child, signal);
}

using TemporaryFile = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// Runs argv in a process with its standard output in a file. Returns the status from waitpid().
int wait_for(char** argv, const std::string& told, std::FILE* output) {
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.push_back(*entry);
  std::string entry = fmt::format("{}={}", variable, told);
  environment.push_back(entry.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(output), STDOUT_FILENO);
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw EnvironmentError(
        fmt::format("--cold-start: no process can be started: {}", std::strerror(failed)));
  }
  running_child = child;
  if (stop_signal != 0) kill(child, stop_signal);  // it may have arrived before the fork returned
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  running_child = 0;
  if (ended < 0) {
    throw EnvironmentError(
        fmt::format("--cold-start: a process cannot be waited for: {}", std::strerror(errno)));
  }
  return status;
}

// "; finished cases are in F.h5; --resume continues from it", if there are any.
std::string where_cases_are(const std::string& output) {
  const bool any = std::filesystem::exists(output) || std::filesystem::exists(output + ".cases");
  if (!any) return "; no case was finished";
  return fmt::format("; finished cases are in {}; --resume continues from it", output);
}

void print(std::FILE* output) {
  std::rewind(output);
  std::array<char, 4096> some{};
  while (const std::size_t count = std::fread(some.data(), 1, some.size(), output)) {
    std::fwrite(some.data(), 1, count, screen);
  }
}

}  // namespace

std::optional<RunProcess> run_process() {
  const char* told = std::getenv(std::string(variable).c_str());
  if (told == nullptr) return std::nullopt;
  const std::string_view text = told;
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    throw UsageError(
        fmt::format("{}: is set by paceline for its own processes; unset it", variable));
  }
  constexpr std::int64_t most = 1 << 30;
  return RunProcess{static_cast<std::size_t>(parse_integer(text.substr(0, colon), 0, most)),
                    std::string(text.substr(colon + 1))};
}

void stop_with_parent() { prctl(PR_SET_PDEATHSIG, SIGTERM); }

int run_in_processes(const ParsedCommand& parsed, char** argv) {
  handle_stop_signals(hand_on);
  const std::string output = output_path(parsed.command->run_options(), parsed.name).string();
  int worst = 0;
  for (std::size_t run = 0;; ++run) {
    const TemporaryFile shown(std::tmpfile(), std::fclose);
    if (!shown) throw EnvironmentError("--cold-start: no temporary file can be made");
    const int status = wait_for(argv, fmt::format("{}:{}", run, output), shown.get());
    if (WIFSIGNALED(status)) {
      if (stop_signal != 0) throw StoppedError("stopped by a signal" + where_cases_are(output));
      throw Error(ExitCode::collective,
                  fmt::format("the process of run {} was ended by signal {}{}", run,
                              WTERMSIG(status), where_cases_are(output)));
    }
    const int code = WEXITSTATUS(status);
    const bool last = code < more_runs_follow;
    worst = std::max(worst, last ? code : code - more_runs_follow);
    if (last) {
      print(shown.get());
      return worst;
    }
    if (stop_signal != 0) throw StoppedError("stopped by a signal" + where_cases_are(output));
  }
}

}  // namespace paceline
