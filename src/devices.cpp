#include "devices.h"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/blas_kernels.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/host.h"
#include "core/screen.h"
#include "cpu/cpu_device.h"
#include "cpu/threads.h"
#include "cuda/cuda_backend.h"
#include "experiments/info/host_links.h"
#include "harness/launch.h"
#include "mpi/host_communicator.h"
#include "mpi/mpi_world.h"
#include "mpi/nccl_communicator.h"

namespace paceline {

namespace {

// How many of the first ranks can have a GPU each, and why the next rank cannot.
struct Gpus {
  int ranks = 0;
  std::string limit_reason;
};

// Why this rank sees no GPU, with the variable that hides GPUs.
std::string why_not_seen() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return why_no_gpu();
  return fmt::format("{}, with CUDA_VISIBLE_DEVICES={}", why_no_gpu(), visible);
}

// Collective.
Gpus find_gpus(World& world) {
  const std::vector<std::string> uuids = world.gather(gpu_uuid(world.local_rank()));
  const std::vector<std::string> reasons = world.gather(why_not_seen());
  std::map<std::string, std::size_t> first_rank;
  std::string limit_reason;
  std::size_t rank = 0;
  for (; rank < uuids.size() && limit_reason.empty(); ++rank) {
    const auto [first, is_new] = first_rank.emplace(uuids[rank], rank);
    if (uuids[rank].empty()) {
      limit_reason = fmt::format("rank {}: {}", rank, reasons[rank]);
    } else if (!is_new) {
      limit_reason =
          fmt::format("ranks {} and {} would share {}", first->second, rank, uuids[rank]);
    }
  }
  limit_reason = world.broadcast(limit_reason, 0);
  const std::size_t with_gpu = limit_reason.empty() ? rank : rank - 1;
  return {.ranks = std::stoi(world.broadcast(std::to_string(with_gpu), 0)),
          .limit_reason = limit_reason};
}

[[noreturn]] void refuse_cuda(const Gpus& gpus) {
  throw EnvironmentError(fmt::format(
      "--device: {}; every rank needs a GPU of its own: see nvidia-smi, or use --device cpu",
      gpus.limit_reason));
}

// Whether this node has a GPU, or the user has chosen one.
bool expects_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string_view chosen = visible != nullptr ? visible : "";
  if (chosen == "-1") return false;  // hides all GPUs
  const nlohmann::ordered_json devices = host_links()["devices"];
  return !chosen.empty() ||
         std::ranges::any_of(devices, [](const auto& device) { return device["kind"] == "gpu"; });
}

// Collective. --device auto measures the CPU although some rank could expect a GPU.
void warn_of_unused_gpus(World& world, const Gpus& gpus) {
  const bool expected = world.max(expects_gpu() ? 1 : 0) > 0;
  if (!expected || world.rank() != 0) return;
  write_to(stderr, "warning: no usable GPU ({}): measuring the CPU\n", gpus.limit_reason);
}

// Collective. The number of this rank's threads: the same on every rank, since the slowest
// determines the times.
int start_threads(const RunOptions& run, World& world) {
  const double cores = std::min<double>(world.usable_cores(), cpu_quota());
  const int share = std::max(1, static_cast<int>(cores / world.local_size()));
  const int asked = static_cast<int>(-world.max(-(run.threads > 0 ? run.threads : share)));
  constexpr int others = 6;         // those of streams, sensors and libraries
  std::optional<HeldThreads> held;  // of all ranks at once
  collectively(world, [&] { held.emplace(asked - 1 + others); });
  held.reset();
  const int threads = static_cast<int>(-world.max(-granted_threads(asked)));
  omp_set_num_threads(threads);
  return threads;
}

RankDevice make_cpu(const RunOptions& run, int threads, const World& world) {
  constexpr double share = 0.9;
  const auto available = static_cast<std::size_t>(share * static_cast<double>(available_memory()) /
                                                  world.local_size());
  auto device = std::make_unique<CpuDevice>(run.memory_limit.value_or(available), threads);
  CpuDevice& cpu = *device;
  const std::string older = older_blas_kernels();
  if (world.rank() == 0 && !older.empty()) write_to(stderr, "warning: {}\n", older);
  return {std::move(device), [&cpu](World& w) { return make_host_communicator(w, cpu); }};
}

RankDevice make_gpu(const RunOptions& run, int threads, const World& world) {
  std::unique_ptr<GpuDevice> device =
      make_cuda_device(world.local_rank(), run.memory_limit, threads);
  GpuDevice& gpu = *device;
  return {std::move(device), [&gpu](World& w) { return make_nccl_communicator(w, gpu); }};
}

// mpi, then nccl. wanted: empty: both.
std::vector<Backend> make_backends(const RunOptions& run, const std::vector<BackendKind>& wanted,
                                   World& world) {
  const auto left_out = [&](BackendKind kind) -> std::string {
    const bool named = std::find(wanted.begin(), wanted.end(), kind) != wanted.end();
    const bool is_mpi = kind == BackendKind::mpi;
    if (!wanted.empty() && !named) return "--backend leaves it out";
    if (run.device == DeviceChoice::cuda && is_mpi) return "--device cuda leaves out host memory";
    if (run.device == DeviceChoice::cpu && !is_mpi) return "--device cpu leaves out GPUs";
    return "";
  };
  std::vector<Backend> backends(2);
  Backend& mpi = backends[0];
  Backend& nccl = backends[1];
  nccl.kind = BackendKind::nccl;
  for (Backend& b : backends) b.limit_reason = left_out(b.kind);
  const int threads = start_threads(run, world);
  const auto give = [](RankDevice& to, RankDevice made) { to = std::move(made); };
  if (mpi.limit_reason.empty()) {
    mpi.ranks = world.size();
    collectively(world, [&] { give(mpi, make_cpu(run, threads, world)); });
    require_same_device(world, mpi.device->info().name);
  }
  if (!nccl.limit_reason.empty()) return backends;
  Gpus gpus = find_gpus(world);
  if (nccl_version().empty()) gpus = {.ranks = 0, .limit_reason = "this build has no NCCL"};
  if (run.device == DeviceChoice::cuda && gpus.ranks < world.size()) refuse_cuda(gpus);
  if (gpus.ranks == 0 && mpi.ranks > 0) warn_of_unused_gpus(world, gpus);
  nccl.ranks = gpus.ranks;
  nccl.limit_reason = gpus.limit_reason;
  collectively(world, [&] {
    if (world.rank() < gpus.ranks) give(nccl, make_gpu(run, threads, world));
  });
  require_same_device(world, nccl.device ? nccl.device->info().name : "");
  return backends;
}

}  // namespace

RankDevice make_device(const RunOptions& run, World& world) {
  const double began = host_seconds();
  bool on_gpu = false;
  if (run.device != DeviceChoice::cpu) {
    const Gpus gpus = find_gpus(world);
    on_gpu = gpus.ranks == world.size();
    if (run.device == DeviceChoice::cuda && !on_gpu) refuse_cuda(gpus);
    if (!on_gpu) warn_of_unused_gpus(world, gpus);
  }
  if (on_gpu) limit_window_blocks();
  const int threads = start_threads(run, world);
  RankDevice made;
  collectively(world, [&] {
    made = on_gpu ? make_gpu(run, threads, world) : make_cpu(run, threads, world);
  });
  require_same_device(world, made.device->info().name);
  made.device->set_start_seconds(host_seconds() - began);
  return made;
}

Launch make_launch(const ParsedCommand& parsed, World& world) {
  const RunOptions& run = parsed.command->run_options();
  Launch launch{.world = world, .backends = {}, .info = {}, .mpi_library = mpi_library()};
  if (const auto wanted = parsed.command->backends()) {
    launch.backends = make_backends(run, *wanted, world);
  } else {
    launch.backends.push_back({make_device(run, world)});
  }
  DeviceInfo recorded;  // of a GPU if there is one
  for (const Backend& backend : launch.backends) {
    if (backend.device) recorded = backend.device->info();
  }
  require_same(world, "NCCL", nccl_version(), "use the same version on every rank");
  launch.info = describe_run(world, recorded, parsed.line, parsed.name);
  if (!nccl_version().empty()) launch.info.environment.emplace_back("nccl", nccl_version());
  return launch;
}

}  // namespace paceline
