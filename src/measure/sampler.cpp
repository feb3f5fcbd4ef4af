#include "measure/sampler.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/clock.h"
#include "core/error.h"
#include "measure/statistics.h"
#include "measure/time_series.h"

namespace paceline {

namespace {

std::int64_t involuntary_switches() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// The repetitions so far. Their headlines, where a stop rule needs them: maxima over ranks, so that
// all ranks make the same decision.
struct Series {
  Repetitions taken;
  std::vector<double> headlines = {};
  double total_seconds = 0;

  [[nodiscard]] int count() const { return static_cast<int>(taken.count()); }
};

// Collective: one more repetition.
void repeat(Series& series, World& world, const SamplerHooks& hooks, bool decides) {
  const bool stop = hooks.stop_requested && hooks.stop_requested();
  if (world.agree(stop ? Status::stopped : Status::ok) == Status::stopped) {
    throw StoppedError("stopped by a signal");
  }
  series.taken.take(hooks.repetition);
  if (!decides) return;
  series.headlines.push_back(world.max(series.taken.seconds.back().back()));
  series.total_seconds += series.headlines.back();
}

// The reason to end warm-up; empty: continue.
std::string warmup_end(const SamplerConfig& config, const Series& series) {
  if (series.count() < config.warmup) return "";
  if (config.max_warmup == 0) return "warmup";
  if (is_steady(series.headlines)) return "steady";
  return series.count() >= config.max_warmup ? "max_warmup" : "";
}

// The reason to end measuring; empty: continue.
std::string measuring_end(const SamplerConfig& config, const Series& series) {
  if (series.count() < config.steps) return "";
  if (series.total_seconds >= config.min_time) {
    if (config.until_ci <= 0) return config.min_time > 0 ? "min_time" : "steps";
    constexpr double percent = 100;
    const Summary summary = summarize(series.headlines);
    const double half_width = (summary.ci_high - summary.ci_low) / 2 / summary.median;
    if (half_width * percent <= config.until_ci) return "converged";
    if (series.count() >= measured_at_most(config)) return "max_steps";
  }
  return config.max_steps > 0 && series.count() >= config.max_steps ? "max_steps" : "";
}

// The expected number of measured repetitions.
int expected_repetitions(const SamplerConfig& config, const Series& series) {
  const int most = measured_at_most(config);
  if (config.min_time <= 0) return most;
  const double wanted = std::ceil(series.count() * config.min_time / series.total_seconds);
  const int cap = config.max_steps > 0 ? config.max_steps : std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp<double>(wanted, std::min(most, cap), cap));
}

}  // namespace

void Repetitions::take(const std::function<PhaseSeconds()>& repetition) {
  const std::int64_t switches = involuntary_switches();
  const double begin = host_seconds();
  const PhaseSeconds taken = repetition();
  host.push_back({.begin = begin,
                  .end = host_seconds(),
                  .involuntary_switches = involuntary_switches() - switches});
  if (seconds.empty()) seconds.resize(taken.size());
  if (taken.size() != seconds.size()) {
    throw InternalError("a repetition must time every phase once");
  }
  for (std::size_t p = 0; p < taken.size(); ++p) seconds[p].push_back(taken[p]);
}

void Repetitions::append(const Repetitions& later) {
  if (seconds.empty()) seconds.resize(later.seconds.size());
  for (std::size_t p = 0; p < later.seconds.size(); ++p) {
    seconds.at(p).insert(seconds[p].end(), later.seconds[p].begin(), later.seconds[p].end());
  }
  host.insert(host.end(), later.host.begin(), later.host.end());
}

void Repetitions::keep_first(std::size_t count) {
  for (std::vector<double>& phase : seconds) phase.resize(count);
  host.resize(count);
}

int measured_at_most(const SamplerConfig& config) {
  constexpr int default_cap = 10;  // times `steps`
  if (config.until_ci <= 0) return config.steps;
  const int cap = config.max_steps > 0 ? config.max_steps : default_cap * config.steps;
  return std::max(cap, config.steps);
}

double fraction_done(const SamplerConfig& config, bool warmup, int done, int total) {
  const int before = warmup ? 0 : std::max(config.warmup, config.max_warmup);
  const int after = warmup ? measured_at_most(config) : 0;
  return static_cast<double>(before + done) / (before + total + after);
}

void check_sampling(const SamplerConfig& config) {
  if (config.max_steps > 0 && config.max_steps < config.steps) {
    throw UsageError("--max-steps: is below --steps");
  }
  if (config.max_warmup > 0 && config.max_warmup < config.warmup) {
    throw UsageError("--max-warmup: is below --warmup");
  }
}

Samples take_samples(World& world, const SamplerConfig& config, std::vector<std::string> phases,
                     const SamplerHooks& hooks) {
  const auto report = [&](bool warmup, int done, int total) {
    if (hooks.progress) hooks.progress(warmup, done, total);
  };
  const Series none{.taken = {.seconds = std::vector<std::vector<double>>(phases.size())}};
  Samples samples;
  Series warmup = none;
  while ((samples.warmup_reason = warmup_end(config, warmup)).empty()) {
    repeat(warmup, world, hooks, config.max_warmup > 0);
    report(true, warmup.count(), std::max(config.warmup, config.max_warmup));
  }
  Series measured = none;
  while ((samples.stop_reason = measuring_end(config, measured)).empty()) {
    repeat(measured, world, hooks, config.until_ci > 0 || config.min_time > 0);
    report(false, measured.count(), expected_repetitions(config, measured));
  }
  samples.phases = std::move(phases);
  samples.warmup = std::move(warmup.taken);
  samples.measured = std::move(measured.taken);
  return samples;
}

}  // namespace paceline
