#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct BenchOptions {
  std::string device = "cpu";
  int threads = 0;  // 0: all cores that the process may use
  std::vector<std::string> sizes = {"small"};
  std::int64_t batch = 4;
  std::int64_t context = 128;
  std::string precision = "fp32";
  std::vector<std::string> google_benchmark;  // the program's name and Google Benchmark's arguments
};

// Empty if --help was given, which has then been printed. Throws UsageError.
[[nodiscard]] std::optional<BenchOptions> parse_bench_options(int argc, char** argv);

}  // namespace paceline
