#pragma once
// Sampler: warm-up, repeats and the stop rule. Every rank takes the same decisions: they follow
// from the maximum over ranks of each repetition's headline time.

#include <functional>
#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

struct SamplerConfig {
  int warmup = 5;
  int steps = 10;       // repetitions that are measured
  double until_ci = 0;  // percent; 0: exactly `steps`. Else stop once the 95% interval's half
                        // width is at most this share of the median, after `steps` at least
  int max_steps = 0;    // with until_ci: the cap (0: 10 x steps)

  [[nodiscard]] bool operator==(const SamplerConfig&) const = default;
};

// Repetitions that are measured at most: with until_ci fewer may do.
[[nodiscard]] int measured_at_most(const SamplerConfig& config);

// Throws UsageError where max_steps is below steps.
void check_sampling(const SamplerConfig& config);

// Seconds per phase of one repetition on this rank, in the order of Samples::phases.
using PhaseSeconds = std::vector<double>;

struct Samples {
  std::vector<std::string> phases;            // the last is the headline
  std::vector<std::vector<double>> warmup;    // [phase][repetition], this rank
  std::vector<std::vector<double>> measured;  // [phase][repetition], this rank
  std::string stop_reason;                    // "steps", "converged", "max_steps"
};

struct SamplerHooks {
  std::function<PhaseSeconds()> repetition;
  std::function<bool()> stop_requested;                            // a signal on this rank
  std::function<void(bool warmup, int done, int total)> progress;  // after each repetition
};

// Runs warm-up and repetitions; collective. Throws StoppedError on every rank as soon as any rank's
// stop_requested() says so.
[[nodiscard]] Samples take_samples(World& world, const SamplerConfig& config,
                                   std::vector<std::string> phases, const SamplerHooks& hooks);

}  // namespace paceline
