// parse -> world -> experiment -> results.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "devices.h"
#include "experiments/attention/attention.h"
#include "experiments/collectives/collectives.h"
#include "experiments/info/info.h"
#include "experiments/training/ddp.h"
#include "experiments/training/model.h"
#include "experiments/training/zero.h"
#include "harness/launch.h"
#include "harness/options.h"
#include "harness/stop_signal.h"
#include "harness/sweep.h"
#include "mpi/mpi_world.h"
#include "mpi/nccl_communicator.h"
#include "record/compare.h"
#include "record/environment.h"
#include "record/result_file.h"

using namespace paceline;

namespace {

int report(const Error& error) {
  fmt::print(stderr, "paceline: {}{}\n",
             error.code() == ExitCode::internal ? "internal error: " : "", error.what());
  return static_cast<int>(error.code());
}

// Collective.
RunInfo describe(const Options& options, World& world, const DeviceInfo& device) {
  RunInfo run = describe_run(world, device, options.command, options.experiment);
  if (!nccl_version().empty()) run.environment.emplace_back("nccl", nccl_version());
  return run;
}

ExitCode measure_collectives(const Options& options, World& world) {
  std::vector<Backend> backends = make_backends(options.run, options.collectives.backends, world);
  const Backend& recorded = backends[1].device ? backends[1] : backends[0];
  RunInfo run = describe(options, world, recorded.device ? recorded.device->info() : DeviceInfo());
  CollectivesExperiment experiment(options, world, std::move(backends));
  return run_sweep(experiment, world, std::move(run), options);
}

ExitCode measure(const Options& options, World& world) {
  if (options.experiment == "collectives") return measure_collectives(options, world);
  const auto [device, make_communicator] = make_device(options.run, world);
  RunInfo run = describe(options, world, device->info());
  if (options.experiment == "info") {
    print_info(world, *device, run, options.ceilings);
    return ExitCode::done;
  }
  if (options.experiment == "ddp" || options.experiment == "zero") {
    const std::unique_ptr<Communicator> all = make_communicator(world);
    std::unique_ptr<DdpExperiment> experiment;
    if (options.experiment == "zero") {
      experiment = std::make_unique<ZeroExperiment>(options, world, *device, *all);
    } else {
      experiment = std::make_unique<DdpExperiment>(options, world, *device, *all);
    }
    return run_sweep(*experiment, world, std::move(run), options);
  }
  if (options.experiment == "attention") {
    AttentionExperiment experiment(options, world, *device);
    return run_sweep(experiment, world, std::move(run), options);
  }
  ModelExperiment experiment(options, world, *device);
  return run_sweep(experiment, world, std::move(run), options);
}

ExitCode read_files(const Options& options) {
  if (options.experiment == "merge") {
    merge_after_crash(options.files.front());
    return ExitCode::done;
  }
  const Comparison c = compare_files(options.files[0], options.files[1], options.any_machine);
  fmt::print("{}", c.table);
  return c.regression ? ExitCode::regression : ExitCode::done;
}

bool reads_files(const Options& options) {
  return options.experiment == "merge" || options.experiment == "compare";
}

// What needs no other rank: help, the version, reading result files.
ExitCode print_or_read_files(const Options& options) {
  if (reads_files(options)) return read_files(options);
  fmt::print("{}", options.answer);
  return ExitCode::done;
}

bool measures(const Options& options) { return options.answer.empty() && !reads_files(options); }

ExitCode run(const Options& options, World& world) {
  if (measures(options)) return measure(options, world);
  ExitCode code = ExitCode::done;
  std::optional<Error> failed;
  try {
    if (world.rank() == 0 && speaks_for_launch()) code = print_or_read_files(options);
  } catch (const Error& error) {
    failed.emplace(error);
  }
  world.wait_idle();  // large files take their time
  collectively(world, [&] {
    if (failed) throw *failed;
  });
  return static_cast<ExitCode>(world.max(static_cast<int>(code)));
}

// Every rank comes here with the same Error, except for what no rank could foresee: that ends the
// others at once, since they may wait for this one.
int run_ranks(const Options& options, const std::optional<Error>& refusal, World& world) {
  const StopSignal stop;
  const auto end_all = [&](const Error& error) {
    report(Error(error.code(), fmt::format("rank {}: {}", world.rank(), error.what())));
    world.abort(error.code());
  };
  bool same_command_line = false;
  try {
    require_same_command_line(world, {.version = software_version(),
                                      .experiment = options.experiment,
                                      .options = options.given,
                                      .refusal = refusal});
    same_command_line = true;
    return static_cast<int>(run(options, world));
  } catch (const Error& error) {
    const bool unforeseen =
        error.code() == ExitCode::internal || error.code() == ExitCode::collective;
    if (same_command_line && unforeseen) end_all(error);
    return world.rank() == 0 && speaks_for_launch() ? report(error)
                                                    : static_cast<int>(error.code());
  } catch (const std::exception& error) {
    end_all(InternalError(error.what()));
  }
  return static_cast<int>(ExitCode::internal);
}

int run_alone(const Options& options) {
  try {
    return static_cast<int>(print_or_read_files(options));
  } catch (const Error& error) {
    return report(error);
  } catch (const std::exception& error) {
    return report(InternalError(error.what()));
  }
}

// When a launch has several processes, all of them initialise MPI, even for --help or merge: only
// over MPI can ranks compare their command lines.
int run_launch(const Options& options, const std::optional<Error>& refusal, int argc, char** argv) {
  std::unique_ptr<World> world;
  try {
    world = make_mpi_world(&argc, &argv, options.run.timeout);
  } catch (const Error& error) {
    if (!refusal && !measures(options)) return speaks_for_launch() ? run_alone(options) : 0;
    return speaks_for_launch() ? report(error) : wait_for_speaker(error.code());
  }
  return run_ranks(options, refusal, *world);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::optional<Error> refusal;
  try {
    options = parse_options(argc, argv);
  } catch (const Error& error) {
    refusal.emplace(error);
  } catch (const std::exception& error) {
    refusal.emplace(InternalError(error.what()));
  }
  const bool alone = launched_processes() == 1;
  if (!alone || (!refusal && measures(options))) return run_launch(options, refusal, argc, argv);
  return refusal ? report(*refusal) : run_alone(options);
}
