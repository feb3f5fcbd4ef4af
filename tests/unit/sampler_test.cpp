#include "measure/sampler.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "core/error.h"
#include "thread_world.h"

namespace paceline {
namespace {

// Runs one sampler per rank; repetition(rank, i) gives the seconds of rank's i-th repetition.
struct Outcome {
  Samples samples;
  std::string error;
  int repetitions = 0;
};

std::vector<Outcome> sample(int ranks, const SamplerConfig& config,
                            const std::vector<std::string>& phases,
                            const std::function<PhaseSeconds(int, int)>& repetition,
                            const std::function<bool(int, int)>& stop = {}) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  ThreadWorld::run(ranks, [&](World& world) {
    Outcome& mine = outcomes[static_cast<std::size_t>(world.rank())];
    SamplerHooks hooks;
    hooks.repetition = [&] { return repetition(world.rank(), mine.repetitions++); };
    if (stop) hooks.stop_requested = [&] { return stop(world.rank(), mine.repetitions); };
    try {
      mine.samples = take_samples(world, config, phases, hooks);
    } catch (const Error& error) {
      mine.error = error.what();
      EXPECT_EQ(error.code(), ExitCode::stopped);
    }
  });
  return outcomes;
}

TEST(Sampler, WarmsUpAndThenMeasures) {
  const auto outcomes = sample(1, {.warmup = 2, .steps = 3}, {"forward", "step"}, [](int, int i) {
    return PhaseSeconds{i + 0.5, i + 0.75};
  });
  const Samples& s = outcomes[0].samples;
  EXPECT_EQ(s.phases, (std::vector<std::string>{"forward", "step"}));
  EXPECT_EQ(s.warmup.seconds, (std::vector<std::vector<double>>{{0.5, 1.5}, {0.75, 1.75}}));
  EXPECT_EQ(s.measured.seconds,
            (std::vector<std::vector<double>>{{2.5, 3.5, 4.5}, {2.75, 3.75, 4.75}}));
  EXPECT_EQ(s.stop_reason, "steps");
  EXPECT_EQ(outcomes[0].repetitions, 5);
}

TEST(Sampler, ExpectsAsManyRepetitionsAsTheMinimumOfTimeNeedsUpToTheMaximum) {
  const auto totals = [](const SamplerConfig& config) {
    std::vector<int> reported;
    ThreadWorld::run(1, [&](World& world) {
      SamplerHooks hooks;
      hooks.repetition = [] { return PhaseSeconds{0.5}; };
      hooks.progress = [&](bool, int, int total) { reported.push_back(total); };
      (void)take_samples(world, config, {"step"}, hooks);
    });
    return reported;
  };
  EXPECT_EQ(totals({.warmup = 0, .steps = 2, .min_time = 2}), (std::vector<int>{4, 4, 4, 4}));
  EXPECT_EQ(totals({.warmup = 0, .steps = 2, .min_time = 2, .max_steps = 3}),
            (std::vector<int>{3, 3, 3}));
}

TEST(Sampler, EndsByTheFirstRuleThatIsMet) {
  const auto equal = [](int, int) { return PhaseSeconds{1}; };
  const auto wild = [](int, int i) { return PhaseSeconds{i % 2 == 0 ? 1.0 : 2.0}; };
  const auto close = [](int, int i) { return PhaseSeconds{i % 2 == 0 ? 1.0 : 1.03}; };
  const auto half = [](int rank, int) { return PhaseSeconds{rank == 1 ? 0.5 : 0.1}; };
  struct Rule {
    SamplerConfig config;
    std::function<PhaseSeconds(int, int)> times;
    std::size_t count;
    std::string reason;
  };
  const std::vector<Rule> rules = {
      {{.warmup = 0, .steps = 1}, equal, 1, "steps"},
      // The interval exists from 6 values on; of equal times its width is 0.
      {{.warmup = 1, .steps = 3, .until_ci = 2}, equal, 6, "converged"},
      {{.warmup = 1, .steps = 8, .until_ci = 2}, equal, 8, "converged"},
      {{.warmup = 0, .steps = 3, .until_ci = 1.5}, close, 6, "converged"},  // 0.015 of 1.015
      {{.warmup = 0, .steps = 3, .until_ci = 1.4}, close, 30, "max_steps"},
      {{.warmup = 0, .steps = 4, .until_ci = 1, .max_steps = 17}, wild, 17, "max_steps"},
      {{.warmup = 0, .steps = 4, .until_ci = 1}, wild, 40, "max_steps"},
      {{.warmup = 0, .steps = 9, .until_ci = 1, .max_steps = 2}, wild, 9, "max_steps"},
      {{.warmup = 0, .steps = 2, .min_time = 4.4}, half, 9, "min_time"},
      {{.warmup = 0, .steps = 10, .min_time = 1}, half, 10, "min_time"},
      {{.warmup = 0, .steps = 2, .min_time = 100, .max_steps = 7}, half, 7, "max_steps"},
      // The interval exists after 6 repetitions, and the time is reached after 9.
      {{.warmup = 0, .steps = 2, .min_time = 4.4, .until_ci = 1}, half, 9, "converged"}};
  for (const auto& [config, times, count, reason] : rules) {
    for (const Outcome& outcome : sample(2, config, {"step"}, times)) {
      const Samples& s = outcome.samples;
      EXPECT_EQ(s.measured.seconds.at(0).size(), count) << config.steps << " " << reason;
      EXPECT_EQ(s.warmup.seconds.at(0).size(), static_cast<std::size_t>(config.warmup));
      EXPECT_EQ(s.stop_reason, reason) << config.steps << " " << count;
    }
  }
}

TEST(Sampler, TheHeadlineOfAllRanksDecides) {
  // Rank 0 alone would have converged at once; rank 1 is slower and varies until repetition 20.
  const auto outcomes =
      sample(3, {.warmup = 0, .steps = 6, .until_ci = 2}, {"forward", "step"}, [](int rank, int i) {
        const double headline = rank == 1 ? (i < 20 ? 2.0 + 0.1 * (i % 5) : 2.2) : 1.0;
        return PhaseSeconds{0.5, headline};
      });
  const std::size_t count = outcomes[0].samples.measured.seconds[1].size();
  EXPECT_GT(count, 6U);
  EXPECT_LT(count, 60U);
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.samples.stop_reason, "converged");
    EXPECT_EQ(outcome.samples.measured.seconds[0].size(), count);
    EXPECT_EQ(outcome.samples.measured.seconds[1].size(), count);
  }
}

// Rank 1 is slower: it determines when warm-up and measuring end.
TEST(Sampler, WarmsUpUntilTheSlowestRanksTimesAreSteady) {
  const auto times = [](int rank, int i) {
    return PhaseSeconds{rank == 1 && i < 12 ? 3.0 - 0.1 * i : 1.0};
  };
  const auto steady = sample(2, {.warmup = 3, .max_warmup = 40, .steps = 2}, {"step"}, times);
  for (const Outcome& outcome : steady) {
    const std::size_t count = outcome.samples.warmup.seconds[0].size();
    EXPECT_GT(count, 12U);
    EXPECT_LE(count, 22U);
    EXPECT_EQ(count, steady[0].samples.warmup.seconds[0].size());
    EXPECT_EQ(outcome.samples.warmup_reason, "steady");
  }
  const auto capped = sample(2, {.warmup = 3, .max_warmup = 8, .steps = 2}, {"step"}, times);
  EXPECT_EQ(capped[0].samples.warmup.seconds[0].size(), 8U);
  EXPECT_EQ(capped[0].samples.warmup_reason, "max_warmup");
  const auto fixed = sample(2, {.warmup = 3, .steps = 2}, {"step"}, times);
  EXPECT_EQ(fixed[0].samples.warmup.seconds[0].size(), 3U);
  EXPECT_EQ(fixed[0].samples.warmup_reason, "warmup");
}

TEST(Sampler, NotesWhenEachRepetitionRan) {
  const auto outcomes = sample(1, {.warmup = 1, .steps = 3}, {"step"}, [](int, int) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return PhaseSeconds{1};
  });
  const std::vector<HostInterval>& host = outcomes[0].samples.measured.host;
  ASSERT_EQ(host.size(), 3U);
  EXPECT_EQ(outcomes[0].samples.warmup.host.size(), 1U);
  for (std::size_t i = 0; i < host.size(); ++i) {
    EXPECT_GE(host[i].end - host[i].begin, 0.002);
  }
  EXPECT_GE(host[1].begin, host[0].end);
  EXPECT_GE(host[2].begin, host[1].end);
}

std::int64_t switches_so_far() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Yields the core that the calling thread shares with a busy one, until the kernel has counted a
// switch. The number of them; 0 if the kernel does not count.
std::int64_t switch_threads() {
  constexpr int many = 1'000'000;
  const std::int64_t before = switches_so_far();
  for (int i = 0; i < many && switches_so_far() == before; ++i) sched_yield();
  return switches_so_far() - before;
}

// Runs `work` on a thread that shares its only core with a busy one.
void run_beside_a_busy_thread(const std::function<void()>& work) {
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    std::atomic<bool> end = false;
    std::thread busy([&] {  // on the same core
      while (!end) sched_yield();
    });
    work();
    end = true;
    busy.join();
  }).join();
}

TEST(Sampler, CountsTheInvoluntarySwitchesOfEachRepetition) {
  Repetitions taken;
  std::int64_t forced = 0;
  std::int64_t at_most = 0;
  run_beside_a_busy_thread([&] {
    const std::int64_t before = switches_so_far();
    taken.take([&] {
      forced = switch_threads();
      return PhaseSeconds{1};
    });
    at_most = switches_so_far() - before;
  });
  if (forced == 0) GTEST_SKIP() << "the kernel does not count involuntary switches";
  EXPECT_GE(taken.host.at(0).involuntary_switches, forced);
  EXPECT_LE(taken.host.at(0).involuntary_switches, at_most);
}

TEST(Sampler, AStopOnOneRankEndsAllInWarmUpAndMeasuring) {
  for (const int at : {0, 4}) {
    const auto outcomes = sample(
        3, {.warmup = 2, .steps = 10}, {"step"}, [](int, int) { return PhaseSeconds{1}; },
        [at](int rank, int done) { return rank == 2 && done >= at; });
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.error, "stopped by a signal");
      EXPECT_EQ(outcome.repetitions, at);
    }
  }
}

TEST(FractionDone, IsOfAllRepetitionsAndNeverFalls) {
  const SamplerConfig config{.warmup = 3, .steps = 5};
  double done = 0;  // eighths
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(fraction_done(config, true, i, 3), ++done / 8);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(fraction_done(config, false, i, 5), ++done / 8);
  EXPECT_EQ(fraction_done({.warmup = 0, .steps = 4}, false, 1, 4), 0.25);
  // At most until the interval is narrow enough.
  const SamplerConfig until{.warmup = 4, .steps = 5, .until_ci = 2, .max_steps = 16};
  EXPECT_EQ(fraction_done(until, true, 1, 4), 1.0 / 20);
  EXPECT_EQ(fraction_done(until, false, 16, 16), 1);
  EXPECT_EQ(fraction_done({.warmup = 2, .steps = 3, .until_ci = 2}, false, 6, 30), 8.0 / 32);
  // Warm-up may end early; the number of steps is extrapolated from the time so far.
  const SamplerConfig open{.warmup = 2, .max_warmup = 10, .steps = 5, .min_time = 3};
  EXPECT_EQ(fraction_done(open, true, 3, 10), 3.0 / 15);
  EXPECT_EQ(fraction_done(open, false, 4, 30), 14.0 / 40);
}

}  // namespace
}  // namespace paceline
