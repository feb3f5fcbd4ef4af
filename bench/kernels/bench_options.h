#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace paceline {

struct BenchOptions {
  std::string device = "cpu";
  int threads = 0;  // 0: every core that this process may use
  std::vector<std::string> sizes = {"small"};
  std::int64_t batch = 4;
  std::int64_t context = 128;
  std::string precision = "fp32";
  std::vector<std::string> google_benchmark;  // the program's name and what is not ours
};

// Nothing when --help was asked for, which is printed. Throws UsageError.
[[nodiscard]] std::optional<BenchOptions> parse_bench_options(int argc, char** argv);

}  // namespace paceline
