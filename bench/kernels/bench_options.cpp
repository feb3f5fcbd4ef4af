#include "bench/kernels/bench_options.h"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string_view>

#include "core/error.h"
#include "core/precision.h"
#include "model/model_config.h"

namespace paceline {

std::optional<BenchOptions> parse_bench_options(int argc, char** argv) {
  BenchOptions o;
  o.google_benchmark.emplace_back(argv[0]);
  std::vector<std::string> ours;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    (argument.starts_with("--benchmark_") ? o.google_benchmark : ours).emplace_back(argument);
  }
  std::reverse(ours.begin(), ours.end());  // the order that CLI11 expects

  CLI::App app("Every operation of a device at the models' shapes, beside what the device can do.",
               "bench_kernels");
  const auto sizes = names_of(ModelSize{});
  app.add_option("--device", o.device, "cpu (default) or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--threads", o.threads, "default: every usable core")->check(CLI::Range(1, 1024));
  app.add_option("--size", o.sizes, "one or several, with commas between; default small")
      ->check(CLI::IsMember(std::vector<std::string>(sizes.begin(), sizes.end() - 1)))
      ->delimiter(',')
      ->allow_extra_args(false);
  app.add_option("--batch-size", o.batch, "default 4")->check(CLI::Range(1, 1 << 16));
  app.add_option("--context", o.context, "default 128")->check(CLI::Range(1, 1 << 16));
  app.add_option("--precision", o.precision, "default fp32")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16", "fp16"}));
  try {
    app.parse(ours);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}\nGoogle Benchmark's own options:\n", app.help());
    std::fflush(stdout);
    benchmark::PrintDefaultHelp();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    throw UsageError(what);
  }
  if (o.device == "cpu" && precision_named(o.precision).gemm == GemmMath::tf32) {
    throw UsageError("--precision tf32 needs --device cuda");
  }
  return o;
}

}  // namespace paceline
