// timing_warnings() of conditions.h.

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/blas_kernels.h"
#include "core/host.h"
#include "core/units.h"
#include "harness/conditions.h"
#include "measure/statistics.h"
#include "measure/time_series.h"

namespace paceline {

namespace {

constexpr double percent = 100;

double number_in(const CaseRecord& record, std::string_view name) {
  const Cell* cell = find_column(record.summary, name);
  return cell == nullptr ? std::nan("") : number_of(cell->value);
}

struct Warnings {
  std::vector<Warning> all;

  template <class... Values>
  void add_if(bool applies, const WarningKind& kind, fmt::format_string<Values...> text,
              Values&&... values) {
    if (applies) all.push_back({kind, fmt::format(text, std::forward<Values>(values)...)});
  }
};

void add_warnings_of_times(Warnings& warnings, const std::vector<double>& times) {
  constexpr double widest = 0.05;
  const Summary summary = summarize(times);
  const double width = (summary.ci_high - summary.ci_low) / summary.median;
  warnings.add_if(width > widest, warning::wide_interval,
                  "the 95% interval is {:.0f}% of the median wide", width * percent);
  if (const auto modes = two_modes(times)) {
    warnings.add_if(true, warning::two_modes, "{} of {} times are around {}, the others around {}",
                    modes->low_count, times.size(), seconds_text(modes->low),
                    seconds_text(modes->high));
  }
  constexpr TrendTest test = {.z = 2.58, .least = 0.02};  // one false alarm in 100
  const double by = drift(times);
  warnings.add_if(has_trend(times, test), warning::trend,
                  "the times {} by {:.1f}% from the first half to the second",
                  by > 0 ? "rise" : "fall", std::abs(by) * percent);
}

}  // namespace

std::vector<Warning> timing_warnings(const CaseRecord& record, const World& world,
                                     const DeviceInfo& device) {
  Warnings warnings;
  const std::vector<double> times = max_over_ranks(record.samples.back().measured);
  add_warnings_of_times(warnings, times);
  warnings.add_if(record.stop_reason == "max_steps", warning::not_converged,
                  "--max-steps ended measuring after {} repetitions", times.size());
  const double limited = number_in(record, "limited_repetitions");
  warnings.add_if(limited > 0, warning::clocks_limited,
                  "the clocks were limited in {} of {} repetitions", limited, times.size());
  constexpr double tolerated = 0.2;  // of a core
  const double others = number_in(record, "other_load_cores");
  warnings.add_if(others > tolerated, warning::other_load, "other programs kept {:.1f} cores busy",
                  others);
  const int cores = world.usable_cores();
  const int ranks = world.local_size();
  warnings.add_if(device.threads * ranks > cores, warning::oversubscribed,
                  "{} threads of {} ranks share {} cores", device.threads * ranks, ranks, cores);
  const double quota = cpu_quota();
  warnings.add_if(quota < cores, warning::cpu_quota, "a CPU quota allows {:.3g} of {} cores", quota,
                  cores);
  const std::string older = older_blas_kernels();
  warnings.add_if(device.kind == DeviceKind::cpu && !older.empty(), warning::old_blas_kernels, "{}",
                  older);
  return std::move(warnings.all);
}

}  // namespace paceline
