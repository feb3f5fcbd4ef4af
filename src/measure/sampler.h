#pragma once
// The sampler: warm-up, repetitions and the rules that end them. Every rank takes the same
// decisions: they follow from the maximum over ranks of each repetition's headline time.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

struct SamplerConfig {
  int warmup = 5;
  int max_warmup = 0;   // 0: exactly `warmup`. Else warm-up goes on after those until is_steady()
  int steps = 10;       // repetitions that are measured
  double min_time = 0;  // seconds that the measured repetitions take together at least
  double until_ci = 0;  // percent; 0: exactly `steps`. Else stop once the 95% interval's half
                        // width is at most this share of the median, after `steps` at least
  int max_steps = 0;    // the cap of repetitions; 0: with until_ci 10 x steps, with min_time none
  int profile = 0;      // repetitions that are profiled, after the measured ones

  [[nodiscard]] bool operator==(const SamplerConfig&) const = default;
};

// Repetitions that until_ci may ask for at most; without it `steps`.
[[nodiscard]] int measured_at_most(const SamplerConfig& config);

// Throws UsageError where max_steps is below steps, or max_warmup below warmup.
void check_sampling(const SamplerConfig& config);

// Seconds per phase of one repetition on this rank, in the order of Samples::phases.
using PhaseSeconds = std::vector<double>;

// One repetition as this rank's host sees it.
struct HostInterval {
  double begin = 0;  // of host_seconds()
  double end = 0;
  std::int64_t involuntary_switches = 0;  // of this process's threads: others wanted their cores
};

// Repetitions of one rank.
struct Repetitions {
  std::vector<std::vector<double>> seconds;  // [phase][repetition]
  std::vector<HostInterval> host;            // [repetition]

  [[nodiscard]] std::size_t count() const { return host.size(); }
  // Runs one and notes its times; every one has the same phases.
  void take(const std::function<PhaseSeconds()>& repetition);
  void append(const Repetitions& later);
  // `count` of them, from the one at `first` on.
  [[nodiscard]] Repetitions part(std::size_t first, std::size_t count) const;
};

struct Samples {
  std::vector<std::string> phases;  // the last is the headline
  Repetitions warmup;
  Repetitions measured;
  std::string warmup_reason;  // why warm-up ended: "warmup", "steady", "max_warmup"
  std::string stop_reason;    // why measuring ended: "steps", "min_time", "converged", "max_steps"

  // The same repetitions in their order: the first `warmups` warm up, the `count` after them are
  // measured.
  [[nodiscard]] Samples split(std::size_t warmups, std::size_t count) const;
};

struct SamplerHooks {
  std::function<PhaseSeconds()> repetition;
  std::function<bool()> stop_requested;  // a signal on this rank
  // After each repetition; total: how many it will be, as far as is known.
  std::function<void(bool warmup, int done, int total)> progress;
};

// Runs warm-up and repetitions; collective. Throws StoppedError on every rank as soon as any rank's
// stop_requested() says so.
[[nodiscard]] Samples take_samples(World& world, const SamplerConfig& config,
                                   std::vector<std::string> phases, const SamplerHooks& hooks);

}  // namespace paceline
