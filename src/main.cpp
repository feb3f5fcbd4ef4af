// The program: parse the command line, start MPI if needed, run the command, return its exit code.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include "core/blas_kernels.h"
#include "core/error.h"
#include "core/screen.h"
#include "harness/command.h"
#include "harness/error_report.h"
#include "harness/launch.h"
#include "harness/lone_world.h"
#include "harness/run_processes.h"
#include "harness/stop_signal.h"
#include "mpi/mpi_world.h"
#include "record/environment.h"
#include "record/untrusted_file.h"

using namespace paceline;

namespace {

ExitCode run_command(const ParsedCommand& parsed, World* world) {
  try {
    return parsed.command->run(world, parsed.line);
  } catch (const Error& error) {
    throw with_preset(error, parsed);
  }
}

bool measures(const ParsedCommand& parsed) { return parsed.command && parsed.command->measures(); }

// Runs the commands that need no other rank: help, version, reading result files.
ExitCode print_or_read_files(const ParsedCommand& parsed) {
  if (parsed.command) return run_command(parsed, nullptr);
  write_out("{}", parsed.answer);
  return ExitCode::done;
}

std::string working_folder() {
  std::error_code gone;
  std::string folder = std::filesystem::current_path(gone).string();
  if (gone) throw EnvironmentError("the working folder no longer exists; cd to one that does");
  return folder;
}

ExitCode run(const ParsedCommand& parsed, World& world) {
  if (measures(parsed)) {
    require_all_tasks(world.size());
    require_same(world, "working folder", working_folder(), "start every rank in the same folder");
    return run_command(parsed, &world);
  }
  ExitCode code = ExitCode::done;
  std::optional<Error> failed;
  try {
    if (world.rank() == 0 && reports_errors()) code = print_or_read_files(parsed);
  } catch (const Error& error) {
    failed.emplace(error);
  }
  world.wait_idle();  // rank 0 may need long for large files
  collectively(world, [&] {
    if (failed) throw *failed;
  });
  return static_cast<ExitCode>(world.max(static_cast<int>(code)));
}

// Every rank catches the same Error, with one exception: internal and collective errors may arise
// on one rank only. That rank aborts the launch, since the other ranks may be waiting for it. Other
// exceptions are not caught: see error_report.h.
int run_ranks(const ParsedCommand& parsed, const std::optional<Error>& refusal, World& world) {
  const StopSignal stop;
  std::signal(SIGPIPE,
              SIG_IGN);  // a closed stdout pipe must not end a run before its file is written
  end_launch_when_uncaught(world);
  bool same_command_line = false;
  try {
    require_same_command_line(world, {.version = software_version(),
                                      .experiment = parsed.name,
                                      .options = parsed.given,
                                      .refusal = refusal});
    same_command_line = true;
    require_same(world, "MPI library", world.library(), "use the same one on every rank");
    return static_cast<int>(run(parsed, world));
  } catch (const Error& error) {
    const bool unforeseen =
        error.code() == ExitCode::internal || error.code() == ExitCode::collective;
    if (same_command_line && unforeseen) end_launch(world, error);
    return world.rank() == 0 && reports_errors() ? report(error) : static_cast<int>(error.code());
  }
}

// Runs work() in a process without MPI: its exit code, or that of the error it throws.
template <class F>
int run_alone(const F& work) {
  try {
    return static_cast<int>(work());
  } catch (const Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    return report(error_of(error));
  }
}

// When a launch has several processes, all of them initialise MPI, even for --help or merge: only
// over MPI can ranks compare their command lines.
int run_launch(const ParsedCommand& parsed, const std::optional<Error>& refusal, int argc,
               char** argv) {
  LaunchTimeout timeout{.reports = reports_errors()};
  if (parsed.command) timeout.seconds = parsed.command->run_options().timeout;
  std::unique_ptr<World> world;
  try {
    world = make_mpi_world(&argc, &argv, timeout);
  } catch (const Error& error) {
    if (!refusal && !measures(parsed))
      return reports_errors() ? run_alone([&] { return print_or_read_files(parsed); }) : 0;
    return reports_errors() ? report(error) : wait_for_error_report(error.code());
  }
  return run_ranks(parsed, refusal, *world);
}

int run_program(int argc, char** argv) {
  ParsedCommand parsed;
  std::optional<Error> refusal;
  const std::optional<int> launched = launched_processes();
  bool in_children = false;
  try {
    parsed = parse_command_line(argc, argv);
    const bool separate = parsed.command && parsed.command->separates_runs() && !launched;
    in_children = separate && !run_process();
    if (separate && !in_children) stop_with_parent();
  } catch (const Error& error) {
    refusal.emplace(error);
  } catch (const std::exception& error) {
    refusal.emplace(InternalError(error.what()));
  }
  if (in_children) return run_alone([&] { return run_in_processes(parsed, argv); });
  const bool alone = is_only_process();
  if (alone && measures(parsed) && !parsed.command->needs_mpi()) {
    return run_ranks(parsed, refusal, *make_lone_world());
  }
  if (!alone || (!refusal && measures(parsed))) return run_launch(parsed, refusal, argc, argv);
  return refusal ? report(*refusal) : run_alone([&] { return print_or_read_files(parsed); });
}

// Whether all of standard output has been written.
bool output_is_written() { return std::fflush(screen) == 0 && std::ferror(screen) == 0; }

// Opens /dev/null in place of standard streams that are closed, so that no file of ours takes their
// place. It is opened for reading: what is written to standard output is lost, and that is an
// error.
void open_closed_streams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream) {
    if (fcntl(stream, F_GETFD) < 0) (void)open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  choose_blas_kernels(argv);
  open_closed_streams();
  std::signal(SIGCHLD, SIG_DFL);  // where it is inherited as ignored, no child can be waited for
  if (const std::optional<int> code = run_as_file_reader(argc, argv)) return *code;
  keep_screen_for_ourselves();
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the file size limit, write() fails and is reported
  const int code = run_program(argc, argv);
  if (output_is_written()) return code;
  const int lost = report(StoppedError(
      "standard output cannot be written (a full disk, a closed pipe?): a part of it is lost"));
  return code == 0 ? lost : code;
}
