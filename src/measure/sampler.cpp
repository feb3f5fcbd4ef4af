#include "measure/sampler.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "measure/statistics.h"

namespace paceline {

namespace {

class Sampling {
 public:
  Sampling(World& world, const SamplerConfig& config, std::vector<std::string> phases,
           const SamplerHooks& hooks)
      : world_(world), config_(config), hooks_(hooks) {
    if (phases.empty() || config.steps < 1) {
      throw InternalError("sampling needs a phase and a step at least");
    }
    samples_.warmup.resize(phases.size());
    samples_.measured.resize(phases.size());
    samples_.phases = std::move(phases);
  }

  Samples run() {
    for (int done = 0; done < config_.warmup; ++done) {
      repeat(samples_.warmup);
      report(true, done + 1, config_.warmup);
    }
    const bool until_ci = config_.until_ci > 0;
    const int cap = measured_at_most(config_);
    for (int done = 0; done < cap && samples_.stop_reason.empty(); ++done) {
      const double headline = repeat(samples_.measured);
      if (until_ci && converged(headline)) samples_.stop_reason = "converged";
      report(false, done + 1, cap);
    }
    if (samples_.stop_reason.empty()) samples_.stop_reason = until_ci ? "max_steps" : "steps";
    return std::move(samples_);
  }

 private:
  // One repetition; returns this rank's headline.
  double repeat(std::vector<std::vector<double>>& into) {
    const bool stop = hooks_.stop_requested && hooks_.stop_requested();
    if (world_.agree(stop ? Status::stopped : Status::ok) == Status::stopped) {
      throw StoppedError("stopped by a signal");
    }
    const PhaseSeconds seconds = hooks_.repetition();
    if (seconds.size() != into.size()) {
      throw InternalError("a repetition must time every phase once");
    }
    for (std::size_t phase = 0; phase < into.size(); ++phase) {
      into[phase].push_back(seconds[phase]);
    }
    return seconds.back();
  }

  // Every rank sees the same maxima, so that every rank decides alike.
  bool converged(double headline) {
    headlines_.push_back(world_.max(headline));
    if (headlines_.size() < static_cast<std::size_t>(config_.steps)) return false;
    constexpr double percent = 100;
    return relative_half_width(summarize(headlines_)) * percent <= config_.until_ci;
  }

  void report(bool warmup, int done, int total) const {
    if (hooks_.progress) hooks_.progress(warmup, done, total);
  }

  World& world_;
  const SamplerConfig& config_;
  const SamplerHooks& hooks_;
  Samples samples_;
  std::vector<double> headlines_;  // maxima over ranks
};

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
  return Sampling(world, config, std::move(phases), hooks).run();
}

}  // namespace paceline
