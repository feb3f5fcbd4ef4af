// Google Benchmark of every operation of a device: bench_kernels --size=small,xl
// --benchmark_filter='rms_norm|softmax'. Benchmarks are named operation/size/precision.

#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/kernels/bench_options.h"
#include "bench/kernels/suite.h"
#include "bench/kernels/table.h"
#include "core/error.h"
#include "core/units.h"
#include "cpu/cpu_device.h"
#include "cuda/cuda_backend.h"
#include "model/model_config.h"

using namespace paceline;

namespace {

// The only place that names a device. options.device has been checked.
std::unique_ptr<Device> make_device(const BenchOptions& options) {
  const int threads = options.threads > 0 ? options.threads : omp_get_num_procs();
  if (options.device == "cuda") return make_cuda_device(0, std::nullopt, threads);
  constexpr double share = 0.9;
  const auto memory = static_cast<std::size_t>(share * static_cast<double>(available_memory()));
  return std::make_unique<CpuDevice>(memory, threads);
}

// Four times the size of the last-level caches, at least 128 MiB and at most 1 GiB.
std::size_t beyond_caches(const Device& device) {
  constexpr std::size_t least = std::size_t{128} << 20;
  constexpr std::size_t most = std::size_t{1} << 30;
  return std::clamp(4 * device.info().cache_bytes, least, most);
}

Dimensions dimensions(const std::string& size, const BenchOptions& options) {
  ModelConfig model = model_of(enum_named<ModelSize>(size));
  model.context = options.context;
  check_model(model);
  return {.size = size,
          .B = options.batch,
          .T = model.context,
          .R = options.batch * model.context,
          .D = model.d_model,
          .F = model.d_ff,
          .H = model.heads,
          .d = model.head_dim(),
          .V = model.vocab};
}

// Google Benchmark keeps a pointer to the program's name: `arguments` must outlive it.
void start_google_benchmark(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  int argc = static_cast<int>(argv.size());
  // Initialize() calls this for a bad value, before it would exit with 0. --help is handled
  // earlier.
  const auto bad_value = [] {
    throw UsageError("a --benchmark_... option has a bad value; see --help");
  };
  benchmark::Initialize(&argc, argv.data(), bad_value);
  if (argc > 1) {
    throw UsageError(fmt::format("{}: unknown, or a bad value; see --help", argv[1]));
  }
}

void describe(const BenchOptions& options, const Device& device, const Ceilings& ceilings) {
  const DeviceInfo info = device.info();
  const auto say = [](const char* key, const std::string& value) {
    benchmark::AddCustomContext(key, value);
  };
  say("device", info.name);
  say("threads", std::to_string(info.threads));
  say("precision", options.precision);
  say("batch_size", std::to_string(options.batch));
  say("context", std::to_string(options.context));
  say("copy_ceiling", bytes_text(ceilings.copy) + "/s read and written");
  say("gemm_ceiling", count_text(ceilings.gemm) + "FLOP/s");
}

ExitCode run(BenchOptions& options) {
  start_google_benchmark(options.google_benchmark);
  const std::unique_ptr<Device> device = make_device(options);
  Suite suite(*device, precision_named(options.precision), beyond_caches(*device));
  describe(options, *device, suite.ceilings());
  for (const std::string& size : options.sizes) {
    const Dimensions m = dimensions(size, options);
    add_layers(suite, m);
    add_attention(suite, m);
    add_matmuls(suite, m);
    add_optimizer(suite, m);
  }
  add_scopes(*device);

  Table table;
  benchmark::BenchmarkReporter* chosen = benchmark::CreateDefaultDisplayReporter();
  if (dynamic_cast<benchmark::ConsoleReporter*>(chosen) != nullptr) chosen = &table;
  const std::size_t matched = benchmark::RunSpecifiedBenchmarks(chosen);
  benchmark::Shutdown();
  return matched > 0 ? ExitCode::done : ExitCode::usage;
}

}  // namespace

int main(int argc, char** argv) {
  const auto fail = [](ExitCode code, const char* what) {
    fmt::print(stderr, "bench_kernels: {}\n", what);
    return static_cast<int>(code);
  };
  try {
    std::optional<BenchOptions> options = parse_bench_options(argc, argv);
    return options ? static_cast<int>(run(*options)) : 0;
  } catch (const Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::exception& error) {
    return fail(ExitCode::internal, error.what());
  }
}
