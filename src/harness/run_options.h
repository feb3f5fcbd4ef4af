#pragma once
// Options of several commands, and the factors common to the cases of all experiments.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/device.h"
#include "core/enum_names.h"
#include "core/world.h"
#include "harness/option_parser.h"
#include "measure/factors.h"
#include "measure/sampler.h"

namespace paceline {

enum class DeviceChoice : std::uint8_t { automatic, cpu, cuda };
constexpr auto names_of(DeviceChoice) { return names("auto", "cpu", "cuda"); }

// Options of every command that measures, other than its factors.
struct RunOptions {
  DeviceChoice device = DeviceChoice::automatic;
  int threads = 0;  // 0: usable cores, at most the CPU quota, / ranks on the node
  std::string output;
  bool resume = false;
  bool force = false;
  bool dry_run = false;
  bool quiet = false;
  bool json = false;
  std::optional<std::size_t> memory_limit;  // bytes
  double timeout = 120;                     // seconds that ranks wait for each other
};

void declare_run_options(OptionParser& p, RunOptions& run);
// --device, --threads and --timeout.
void declare_launch_options(OptionParser& p, RunOptions& run);
// --peak-tflops; 0: not given.
void declare_peak(OptionParser& p, double& tflops);
// Throws UsageError for options that cannot be combined.
void check_run_options(const RunOptions& run, const OptionParser& p);
// Throws UsageError if the file of the option `output` is that of the option `input`, which it
// would replace. Options that are not given have no file: "".
void refuse_same_file(std::string_view output, const std::string& path, std::string_view input,
                      const std::string& file);

// The state of the last-level cache before each repetition.
enum class CacheState : std::uint8_t { cold, warm };
constexpr auto names_of(CacheState) { return names("cold", "warm"); }

// The ranks and device of a case.
struct LaunchFactors {
  std::int64_t ranks = 0;
  DeviceKind device = DeviceKind::cpu;
  int threads = 0;  // CPU threads of each rank
  std::int64_t seed = 0;
  bool deterministic = false;

  [[nodiscard]] bool operator==(const LaunchFactors&) const = default;
};

template <class C>
[[nodiscard]] Factors<C> launch_factors() {
  return factors_of<LaunchFactors>(
      by_launch<C>(&C::ranks, "ranks", "processes of the launch"),
      by_launch<C>(&C::device, "device", "cpu or cuda"),
      by_launch<C>(&C::threads, "threads", "CPU threads of each rank"),
      setting<C>(&C::seed, "seed", "seed of the random weights, tokens and inputs").from(0, 0x1p62),
      setting<C>(&C::deterministic, "deterministic",
                 "bitwise reproducible from run to run (the CPU device always is)")
          .implicit("yes"));
}

// Sets the factors of a case that follow from the launch.
void complete_launch(LaunchFactors& c, const World& world, const Device& device);

template <class C>
[[nodiscard]] Factors<C> sampling_factors() {
  constexpr double most = 1e6;
  return factors_of<SamplerConfig>(
      setting<C>(&C::warmup, "warmup", "warm-up repetitions").from(0, most),
      setting<C>(&C::max_warmup, "max_warmup",
                 "continue warming up until the times show no trend, for at most this many "
                 "repetitions in total; 0: --warmup alone")
          .from(0, most),
      setting<C>(&C::steps, "steps", "measured repetitions").from(1, most),
      setting<C>(&C::min_time, "min_time",
                 "continue until the measured repetitions total this many seconds; 0: stop after "
                 "--steps")
          .from(0, most),
      setting<C>(&C::until_ci, "until_ci",
                 "continue until the half-width of the 95% interval is at most this percentage of "
                 "the median; 0: stop after --steps")
          .in("%")
          .from(0, 100),
      setting<C>(&C::max_steps, "max_steps",
                 "maximum of measured repetitions; 0: 10 x steps with --until-ci, no limit with "
                 "--min-time")
          .from(0, most)
          .where([](const C& c) { return c.until_ci > 0 || c.min_time > 0; },
                 "--until-ci or --min-time"),
      setting<C>(
          &C::profile, "profile",
          "profile this many additional repetitions after the measured ones: kernels, copies "
          "and calls, by scope; 0: none")
          .implicit("10")
          .from(0, 1e4)
          .where([](const C& c) { return c.profile > 0; }, "a number above 0"));
}

}  // namespace paceline
