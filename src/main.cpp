// parse -> world -> experiment -> results.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>

#include "core/error.h"
#include "cpu/available.h"
#include "cpu/cpu_device.h"
#include "experiments/info.h"
#include "experiments/launch.h"
#include "experiments/model.h"
#include "experiments/options.h"
#include "experiments/stop_signal.h"
#include "experiments/sweep.h"
#include "mpi/mpi_world.h"
#include "record/compare.h"
#include "record/result_file.h"

using namespace paceline;

namespace {

int report(const Error& error) {
  fmt::print(stderr, "paceline: {}{}\n",
             error.code() == ExitCode::internal ? "internal error: " : "", error.what());
  return static_cast<int>(error.code());
}

std::unique_ptr<Device> make_device(const RunOptions& run, World& world) {
  if (run.device == "cuda") {
    throw EnvironmentError("--device: this build has no CUDA device; use --device cpu");
  }
  const int threads =
      run.threads > 0 ? run.threads : std::max(1, world.usable_cores() / world.local_size());
  constexpr double share = 0.9;
  const auto available = static_cast<std::size_t>(share * static_cast<double>(available_memory()) /
                                                  world.local_size());
  const std::size_t limit =
      run.memory_limit ? static_cast<std::size_t>(*run.memory_limit) : available;
  return std::make_unique<CpuDevice>(limit, threads);
}

ExitCode measure(const Options& options, World& world) {
  std::unique_ptr<Device> device;
  collectively(world, [&] { device = make_device(options.run, world); });
  if (options.experiment == "info") {
    print_info(world, *device, options.ceilings);
    return ExitCode::done;
  }
  ModelExperiment experiment(options, world.size(), device->info());
  return run_sweep(experiment, world, *device, options);
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

// Every rank comes here with the same Error, except for what no rank could foresee: that ends the
// others at once, since they may wait for this one.
int run_ranks(const Options& options, int argc, char** argv) {
  const std::unique_ptr<World> world = make_mpi_world(&argc, &argv);
  const StopSignal stop;
  const auto end_all = [&](const Error& error) {
    report(Error(error.code(), fmt::format("rank {}: {}", world->rank(), error.what())));
    world->abort(error.code());
  };
  try {
    return static_cast<int>(measure(options, *world));
  } catch (const Error& error) {
    if (error.code() == ExitCode::internal || error.code() == ExitCode::collective) end_all(error);
    return world->rank() == 0 ? report(error) : static_cast<int>(error.code());
  } catch (const std::exception& error) {
    end_all(InternalError(error.what()));
  }
  return static_cast<int>(ExitCode::internal);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    if (!options) return 0;
    const bool offline = options->experiment == "merge" || options->experiment == "compare";
    return offline ? static_cast<int>(read_files(*options)) : run_ranks(*options, argc, argv);
  } catch (const Error& error) {
    // Before MPI starts every rank fails alike; one of them speaks.
    if (!speaks_for_launch()) return wait_for_speaker(error.code());
    return report(error);
  } catch (const std::exception& error) {
    return report(InternalError(error.what()));
  }
}
