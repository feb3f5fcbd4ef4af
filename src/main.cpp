// The program: parse the command line, start MPI if the command measures, run it, return its exit
// code.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>

#include "core/blas_kernels.h"
#include "core/error.h"
#include "core/screen.h"
#include "harness/command.h"
#include "harness/error_report.h"
#include "harness/launch.h"
#include "harness/lone_world.h"
#include "harness/stop_signal.h"
#include "mpi/mpi_world.h"
#include "record/environment.h"

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

// Help, version and commands that read files need no other rank. Of a launch, rank 0 alone runs
// them: the others end at once.
ExitCode print_or_read_files(const ParsedCommand& parsed) {
  if (!reports_errors()) return ExitCode::done;
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

// Every rank catches the same Error, with one exception: internal and collective errors may arise
// on one rank only. That rank aborts the launch, since the other ranks may be waiting for it. Other
// exceptions are not caught: see error_report.h.
int run_ranks(const ParsedCommand& parsed, World& world) {
  const StopSignal stop;
  std::signal(SIGPIPE,
              SIG_IGN);  // a closed stdout pipe must not end a run before its file is written
  end_launch_when_uncaught(world);
  bool same_command_line = false;
  try {
    require_same_command_line(
        world, {.version = software_version(), .experiment = parsed.name, .options = parsed.given});
    same_command_line = true;
    require_same(world, "MPI library", world.library(), "use the same one on every rank");
    require_all_tasks(world.size());
    require_same(world, "working folder", working_folder(), "start every rank in the same folder");
    return static_cast<int>(run_command(parsed, &world));
  } catch (const Error& error) {
    const bool unforeseen =
        error.code() == ExitCode::internal || error.code() == ExitCode::collective;
    if (same_command_line && unforeseen) end_launch(world, error);
    return world.rank() == 0 && reports_errors() ? report(error) : static_cast<int>(error.code());
  }
}

// Runs a command that measures.
int run_launch(const ParsedCommand& parsed, int argc, char** argv) {
  std::unique_ptr<World> world;
  try {
    const bool alone = is_only_process() && !parsed.command->needs_mpi();
    world = alone ? make_lone_world()
                  : make_mpi_world(&argc, &argv,
                                   {.seconds = parsed.command->run_options().timeout,
                                    .reports = reports_errors()},
                                   report_once);
  } catch (const Error& error) {
    return report_once(error);
  }
  return run_ranks(parsed, *world);
}

int run_program(int argc, char** argv) {
  ParsedCommand parsed;
  try {
    parsed = parse_command_line(argc, argv);
    if (!measures(parsed)) return static_cast<int>(print_or_read_files(parsed));
  } catch (const Error& error) {
    return report_once(error);
  } catch (const std::exception& error) {
    return report_once(error_of(error));
  }
  return run_launch(parsed, argc, argv);
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
  keep_screen_for_ourselves();
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the file size limit, write() fails and is reported
  const int code = run_program(argc, argv);
  if (output_is_written()) return code;
  const int lost = report(StoppedError(
      "standard output cannot be written (a full disk, a closed pipe?): a part of it is lost"));
  return code == 0 ? lost : code;
}
