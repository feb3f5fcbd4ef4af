#pragma once
// The sampler: warm-up, repetitions and their stop rules. All ranks make the same decisions, from
// the maximum over ranks of each repetition's headline time.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/world.h"

namespace paceline {

struct SamplerConfig {
  int warmup = 5;
  int max_warmup = 0;   // 0: exactly `warmup`. Else at most this many, until is_steady()
  int steps = 10;       // measured repetitions
  double min_time = 0;  // minimum total of the measured repetitions, seconds
  double until_ci = 0;  // percent; 0: exactly `steps`. Else stop after at least `steps`, once half
                        // the width of the 95% interval is at most this share of the median
  int max_steps = 0;    // maximum of repetitions; 0: 10 x steps with until_ci, none with min_time
  int profile = 0;      // profiled repetitions, after the measured ones

  [[nodiscard]] bool operator==(const SamplerConfig&) const = default;
};

// The maximum number of repetitions with until_ci; `steps` without it.
[[nodiscard]] int measured_at_most(const SamplerConfig& config);

// The completed part of all repetitions, warm-up included: 0 to 1. total: the expected number of
// warm-up or measured repetitions.
[[nodiscard]] double fraction_done(const SamplerConfig& config, bool warmup, int done, int total);

// Throws UsageError if max_steps < steps or max_warmup < warmup.
void check_sampling(const SamplerConfig& config);

// Seconds per phase of one repetition on this rank, in the order of Samples::phases.
using PhaseSeconds = std::vector<double>;

// One repetition on this rank's host.
struct HostInterval {
  double begin = 0;  // host_seconds()
  double end = 0;
  std::int64_t involuntary_switches = 0;  // context switches of this process's threads
};

// The repetitions of one rank.
struct Repetitions {
  std::vector<std::vector<double>> seconds;  // [phase][repetition]
  std::vector<HostInterval> host;            // [repetition]

  [[nodiscard]] std::size_t count() const { return host.size(); }
  // Runs a repetition and appends its times. All repetitions have the same phases.
  void take(const std::function<PhaseSeconds()>& repetition);
  void append(const Repetitions& later);
  void keep_first(std::size_t count);
};

struct Samples {
  std::vector<std::string> phases;  // the last is the headline
  Repetitions warmup;
  Repetitions measured;
  std::string warmup_reason;  // why warm-up ended: "warmup", "steady", "max_warmup"
  std::string stop_reason;    // why measuring ended: "steps", "min_time", "converged", "max_steps"
};

struct SamplerHooks {
  std::function<PhaseSeconds()> repetition;
  std::function<bool()> stop_requested;  // a signal on this rank
  // Called after each repetition. total: the expected number of repetitions.
  std::function<void(bool warmup, int done, int total)> progress;
};

// Collective: runs warm-up and repetitions. Throws StoppedError on every rank as soon as
// stop_requested() returns true on any rank.
[[nodiscard]] Samples take_samples(World& world, const SamplerConfig& config,
                                   std::vector<std::string> phases, const SamplerHooks& hooks);

}  // namespace paceline
