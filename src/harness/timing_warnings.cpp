#include "harness/timing_warnings.h"

#include <fmt/format.h>

#include <cmath>

#include "core/blas_kernels.h"
#include "core/units.h"
#include "core/usable_cores.h"
#include "measure/statistics.h"
#include "measure/time_series.h"

namespace paceline {

namespace {

constexpr double percent = 100;

double number_in(const CaseRecord& record, std::string_view name) {
  const Cell* cell = find_column(record.summary, name);
  return cell == nullptr ? std::nan("") : number_of(cell->value);
}

void add_warnings_of_times(std::vector<Warning>& warnings, const std::vector<double>& times) {
  constexpr double widest = 0.05;
  const Summary summary = summarize(times);
  const double width = (summary.ci_high - summary.ci_low) / summary.median;
  if (width > widest) {
    warnings.push_back(
        {warning::wide_interval,
         fmt::format("the 95% interval is {:.0f}% of the median wide", width * percent)});
  }
  if (const auto modes = two_modes(times)) {
    warnings.push_back(
        {warning::two_modes,
         fmt::format("{} of {} times are around {}, the others around {}", modes->low_count,
                     times.size(), seconds_text(modes->low), seconds_text(modes->high))});
  }
  constexpr TrendTest test = {.z = 2.58, .least = 0.02};  // one false alarm in 100
  if (has_trend(times, test)) {
    const double by = drift(times);
    warnings.push_back(
        {warning::trend, fmt::format("the times {} by {:.1f}% from the first half to the second",
                                     by > 0 ? "rise" : "fall", std::abs(by) * percent)});
  }
}

}  // namespace

std::vector<Warning> timing_warnings(const CaseRecord& record, const World& world,
                                     const DeviceInfo& device) {
  std::vector<Warning> warnings;
  const std::vector<double> times = max_over_ranks(record.samples.back().measured);
  add_warnings_of_times(warnings, times);
  if (record.stop_reason == "max_steps") {
    warnings.push_back(
        {warning::not_converged,
         fmt::format("--max-steps ended measuring after {} repetitions", times.size())});
  }
  if (const double limited = number_in(record, "limited_repetitions"); limited > 0) {
    warnings.push_back(
        {warning::clocks_limited,
         fmt::format("the clocks were limited in {} of {} repetitions", limited, times.size())});
  }
  constexpr double tolerated = 0.2;  // of a core
  if (const double others = number_in(record, "other_load_cores"); others > tolerated) {
    warnings.push_back(
        {warning::other_load, fmt::format("other programs kept {:.1f} cores busy", others)});
  }
  const int threads = device.threads * world.local_size();
  if (threads > world.usable_cores()) {
    warnings.push_back(
        {warning::oversubscribed, fmt::format("{} threads of {} ranks share {} cores", threads,
                                              world.local_size(), world.usable_cores())});
  }
  if (const double quota = cpu_quota(); quota < world.usable_cores()) {
    warnings.push_back({warning::cpu_quota, fmt::format("a CPU quota allows {:.3g} of {} cores",
                                                        quota, world.usable_cores())});
  }
  const std::string older = older_blas_kernels();
  if (device.kind == DeviceKind::cpu && !older.empty()) {
    warnings.push_back({warning::old_blas_kernels, older});
  }
  return warnings;
}

}  // namespace paceline
