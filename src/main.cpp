// parse -> world -> experiment -> results.

#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "cpu/available.h"
#include "cpu/cpu_device.h"
#include "cuda/cuda_backend.h"
#include "experiments/collectives.h"
#include "experiments/info.h"
#include "experiments/launch.h"
#include "experiments/model.h"
#include "experiments/options.h"
#include "experiments/stop_signal.h"
#include "experiments/sweep.h"
#include "mpi/host_communicator.h"
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

// Why the ranks cannot have a GPU each; nothing when they can. Collective.
std::string gpu_trouble(World& world) {
  const std::vector<std::string> gpus = world.gather(gpu_of_rank(world.local_rank()));
  std::map<std::string, std::size_t> first_rank;
  std::string trouble;
  for (std::size_t rank = 0; rank < gpus.size() && trouble.empty(); ++rank) {
    const auto [first, is_new] = first_rank.emplace(gpus[rank], rank);
    if (gpus[rank].empty()) trouble = fmt::format("rank {} sees no CUDA GPU", rank);
    if (!gpus[rank].empty() && !is_new) {
      trouble = fmt::format("ranks {} and {} would share {}", first->second, rank, gpus[rank]);
    }
  }
  return world.broadcast(trouble, 0);
}

std::unique_ptr<Device> make_cpu_device(const RunOptions& run, World& world, int threads) {
  constexpr double share = 0.9;
  const auto available = static_cast<std::size_t>(share * static_cast<double>(available_memory()) /
                                                  world.local_size());
  return std::make_unique<CpuDevice>(run.memory_limit.value_or(available), threads);
}

// Collective.
std::unique_ptr<Device> make_device(const RunOptions& run, World& world) {
  const std::string trouble = run.device == "cpu" ? "cpu asked for" : gpu_trouble(world);
  if (run.device == "cuda" && !trouble.empty()) {
    throw EnvironmentError("--device: " + trouble +
                           "; start at most one rank per GPU, or use --device cpu");
  }
  const int threads =
      run.threads > 0 ? run.threads : std::max(1, world.usable_cores() / world.local_size());
  std::unique_ptr<Device> device;
  collectively(world, [&] {
    device = trouble.empty() ? make_cuda_device(world.local_rank(), run.memory_limit, threads)
                             : make_cpu_device(run, world, threads);
  });
  return device;
}

// Host memory through MPI. Collective.
ExitCode measure_collectives(const Options& options, World& world) {
  if (options.run.device == "cuda") {
    throw EnvironmentError("--device: cuda needs the nccl backend, which is not built yet");
  }
  const int threads = options.run.threads > 0
                          ? options.run.threads
                          : std::max(1, world.usable_cores() / world.local_size());
  std::unique_ptr<Device> device;
  collectively(world, [&] { device = make_cpu_device(options.run, world, threads); });
  const std::unique_ptr<Communicator> communicator = make_host_communicator(world, *device);
  CollectivesExperiment experiment(
      options, world,
      {{.name = "mpi", .device = device.get(), .communicator = communicator.get()}});
  return run_sweep(experiment, world, *device, options);
}

ExitCode measure(const Options& options, World& world) {
  if (options.experiment == "collectives") return measure_collectives(options, world);
  const std::unique_ptr<Device> device = make_device(options.run, world);
  if (options.experiment == "info") {
    print_info(world, *device, options.ceilings);
    return ExitCode::done;
  }
  ModelExperiment experiment(options, world, device->info());
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
  const std::unique_ptr<World> world = make_mpi_world(&argc, &argv, options.run.timeout);
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
    if (!offline) return run_ranks(*options, argc, argv);
    return speaks_for_launch() ? static_cast<int>(read_files(*options)) : 0;
  } catch (const Error& error) {
    // Before MPI starts every rank fails alike; one of them speaks.
    if (!speaks_for_launch()) return wait_for_speaker(error.code());
    return report(error);
  } catch (const std::exception& error) {
    return report(InternalError(error.what()));
  }
}
