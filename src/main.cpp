// The program: parse the command line, start MPI if the command measures, run it, return its exit
// code.

#include <csignal>
#include <exception>
#include <memory>

#include "core/blas_kernels.h"
#include "core/error.h"
#include "core/screen.h"
#include "devices.h"
#include "harness/early_end.h"
#include "harness/launch.h"
#include "mpi/mpi_world.h"
#include "record/environment.h"
#include "registry.h"

using namespace paceline;

namespace {

ExitCode run_command(const ParsedCommand& parsed, World* world) {
  try {
    if (world == nullptr) return parsed.command->run(nullptr);
    Launch launch = make_launch(parsed, *world);
    return parsed.command->run(&launch);
  } catch (const Error& error) {
    throw with_preset(error, parsed);
  }
}

// Help, version and commands that read files need no other rank. Of a launch, rank 0 alone runs
// them: the others end at once.
ExitCode run_alone(const ParsedCommand& parsed) {
  if (!reports_errors()) return ExitCode::done;
  if (parsed.command) return run_command(parsed, nullptr);
  write_out("{}", parsed.answer);
  return ExitCode::done;
}

std::unique_ptr<World> make_world(const ParsedCommand& parsed, int argc, char** argv) {
  if (is_only_process() && !parsed.command->needs_mpi()) return std::make_unique<LoneWorld>();
  const LaunchTimeout timeout{.seconds = parsed.command->run_options().timeout,
                              .reports = reports_errors()};
  return make_mpi_world(&argc, &argv, timeout, report_once);
}

// Every rank catches the same Error, with one exception: internal and collective errors may arise
// on one rank only. That rank aborts the launch, since the other ranks may be waiting for it. Other
// exceptions are not caught: see early_end.h.
ExitCode run_ranks(const ParsedCommand& parsed, World& world) {
  const StopSignal stop;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe must not end a run before its file is written
  end_launch_when_uncaught(world);
  bool alike = false;
  try {
    require_same_launch(
        world, {.version = software_version(), .experiment = parsed.name, .options = parsed.given});
    alike = true;
    return run_command(parsed, &world);
  } catch (const Error& error) {
    const bool unforeseen =
        error.code() == ExitCode::internal || error.code() == ExitCode::collective;
    if (alike && unforeseen) end_launch(world, error);
    return world.rank() == 0 && reports_errors() ? report(error) : error.code();
  }
}

ExitCode run(int argc, char** argv) {
  ParsedCommand parsed;
  std::unique_ptr<World> world;
  try {
    parsed = parse_command_line(registry(), argc, argv);
    if (!parsed.measures()) return run_alone(parsed);
    world = make_world(parsed, argc, argv);
  } catch (const Error& error) {
    return report_once(error);
  } catch (const std::exception& error) {
    return report_once(error_of(error));
  }
  return run_ranks(parsed, *world);
}

}  // namespace

int main(int argc, char** argv) {
  choose_blas_kernels(argv);
  keep_screen_for_ourselves();
  std::signal(SIGXFSZ, SIG_IGN);  // beyond the file size limit, write() fails and is reported
  const ExitCode code = run(argc, argv);
  if (screen_is_written()) return static_cast<int>(code);
  const ExitCode lost = report(StoppedError(
      "standard output cannot be written (a full disk, a closed pipe?): a part of it is lost"));
  return static_cast<int>(code == ExitCode::done ? lost : code);
}
