#include "measure/sampler.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

// One repetition; returns this rank's headline.
double repeat(World& world, const SamplerHooks& hooks, std::vector<std::vector<double>>& into) {
  const bool stop = hooks.stop_requested && hooks.stop_requested();
  if (world.agree(stop ? Status::stopped : Status::ok) == Status::stopped) {
    throw StoppedError("stopped by a signal");
  }
  const PhaseSeconds seconds = hooks.repetition();
  if (seconds.size() != into.size()) {
    throw InternalError("a repetition must time every phase once");
  }
  for (std::size_t phase = 0; phase < into.size(); ++phase) into[phase].push_back(seconds[phase]);
  return seconds.back();
}

bool converged(const std::vector<double>& headlines, const SamplerConfig& config) {
  constexpr double percent = 100;
  return std::ssize(headlines) >= config.steps &&
         relative_half_width(summarize(headlines)) * percent <= config.until_ci;
}

}  // namespace

int measured_at_most(const SamplerConfig& config) {
  constexpr int default_cap = 10;  // times `steps`
  if (config.until_ci <= 0) return config.steps;
  const int cap = config.max_steps > 0 ? config.max_steps : default_cap * config.steps;
  return std::max(cap, config.steps);
}

void check_sampling(const SamplerConfig& config) {
  if (config.max_steps > 0 && config.max_steps < config.steps) {
    throw UsageError("--max-steps: is below --steps");
  }
}

Samples take_samples(World& world, const SamplerConfig& config, std::vector<std::string> phases,
                     const SamplerHooks& hooks) {
  if (phases.empty() || config.steps < 1) {
    throw InternalError("sampling needs a phase and a step at least");
  }
  const auto report = [&](bool warmup, int done, int total) {
    if (hooks.progress) hooks.progress(warmup, done, total);
  };
  const std::vector<std::vector<double>> none(phases.size());
  Samples samples{.phases = std::move(phases), .warmup = none, .measured = none, .stop_reason = ""};
  for (int done = 0; done < config.warmup; ++done) {
    (void)repeat(world, hooks, samples.warmup);
    report(true, done + 1, config.warmup);
  }
  std::vector<double> headlines;  // maxima over ranks, so that every rank decides alike
  const int cap = measured_at_most(config);
  for (int done = 0; done < cap && samples.stop_reason.empty(); ++done) {
    const double headline = repeat(world, hooks, samples.measured);
    if (config.until_ci > 0) {
      headlines.push_back(world.max(headline));
      if (converged(headlines, config)) samples.stop_reason = "converged";
    }
    report(false, done + 1, cap);
  }
  if (samples.stop_reason.empty()) {
    samples.stop_reason = config.until_ci > 0 ? "max_steps" : "steps";
  }
  return samples;
}

}  // namespace paceline
