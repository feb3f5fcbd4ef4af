#include "bench/kernels/table.h"

#include <fmt/format.h>

#include <ostream>
#include <string>
#include <string_view>

#include "core/units.h"

namespace paceline {

namespace {

constexpr std::string_view columns = "{:<{}} {:>10} {:>12} {:>10} {:>14} {:>10} {:>10}\n";

// The length of a registered name: Google Benchmark adds a suffix to every name.
std::size_t width_of_names(std::size_t with_suffix) {
  return with_suffix - std::string_view("/manual_time").size();
}

// Version 1.8 replaces error_message of 1.7 by skip_message.
template <class Run>
std::string reason_to_skip(const Run& run) {
  if constexpr (requires { run.error_message; }) {
    return run.error_message;
  } else {
    return run.skip_message;
  }
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return number_text(seconds * 1e6) + " us";
  if (seconds < 1) return number_text(seconds * 1e3) + " ms";
  return number_text(seconds) + " s";
}

std::string percent_text(double share) { return number_text(share * 100) + " %"; }
std::string share_text(double share) { return fmt::format("{:.3f}", share); }
std::string bytes_rate_text(double bytes) { return bytes_text(bytes) + "/s"; }
std::string flop_rate_text(double flops) { return count_text(flops) + "FLOP/s"; }

}  // namespace

void Table::PrintHeader(const Run& /*run*/) {
  GetOutputStream() << fmt::format(columns, "benchmark", width_of_names(name_field_width_), "time",
                                   "bytes/s", "copy_share", "FLOP/s", "gemm_share", "runs");
}

void Table::PrintRunData(const Run& run) {
  const std::size_t width = width_of_names(name_field_width_);
  std::string name = run.run_name.function_name;
  if (!run.aggregate_name.empty()) name += "_" + run.aggregate_name;
  if (const std::string reason = reason_to_skip(run); !reason.empty()) {
    GetOutputStream() << fmt::format("{:<{}} skipped: {}\n", name, width, reason);
    return;
  }
  // The coefficient of variation over repetitions is the only relative figure.
  const bool relative = run.aggregate_unit == benchmark::kPercentage;
  const auto counter = [&](const char* key, std::string (*absolute)(double)) -> std::string {
    const auto it = run.counters.find(key);
    if (it == run.counters.end()) return "-";
    return relative ? percent_text(it->second) : absolute(it->second);
  };
  const std::string time =
      relative
          ? percent_text(run.real_accumulated_time)
          : time_text(run.GetAdjustedRealTime() / benchmark::GetTimeUnitMultiplier(run.time_unit));
  GetOutputStream() << fmt::format(
      columns, name, width, time, counter("bytes_per_second", bytes_rate_text),
      counter("copy_share", share_text), counter("flop_per_second", flop_rate_text),
      counter("gemm_share", share_text), run.iterations);
  GetOutputStream().flush();
}

}  // namespace paceline
