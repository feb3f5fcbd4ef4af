#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "experiments/training/step_runner.h"
#include "tests/unit/constants.h"
#include "tests/unit/tiny_training.h"

namespace paceline {
namespace {

TrainingCase tiny(const std::string& precision, std::int64_t vocab = 31) {
  TrainingCase c = tiny_training(precision);
  c.vocab = vocab;
  c.layers = 2;
  return c;
}

// Updates only a part of the parameters.
class PartOnly final : public ParallelStrategy {
 public:
  PartOnly(ParameterStore& store, std::vector<StoreRange> ranges)
      : ParallelStrategy(store), ranges_(std::move(ranges)) {}
  [[nodiscard]] Shard shard() const override { return {.ranges = ranges_, .agree = nullptr}; }

 private:
  std::vector<StoreRange> ranges_;
};

// Parameters are NaN but between acquire() and release().
class Lent final : public ParallelStrategy {
 public:
  explicit Lent(ParameterStore& store) : ParallelStrategy(store), uses_(store.entries().size()) {}
  void begin_step() override {
    values_ = get_floats(store_.device(), store_.parameters());
    if (!store_.copy().empty()) copies_ = get_floats(store_.device(), store_.copy());
    for (ParameterId id = 0; id < uses_.size(); ++id) show(id, false);
  }
  [[nodiscard]] Parameter acquire(ParameterId id, Pass pass) override {
    if (uses_[id]++ == 0) show(id, true);
    return ParallelStrategy::acquire(id, pass);
  }
  void release(ParameterId id, Pass /*pass*/) override {
    if (--uses_[id] == 0) show(id, false);
  }
  void finish_backward() override {
    for (ParameterId id = 0; id < uses_.size(); ++id) show(id, true);
  }
  [[nodiscard]] bool communicates() const override { return true; }

 private:
  void show(ParameterId id, bool valid) {
    const StoreRange range = store_.entries()[id].range();
    const auto put = [&](const Tensor& to, const std::vector<float>& from) {
      if (from.empty()) return;
      std::vector<float> part(static_cast<std::size_t>(range.length), std::nanf(""));
      if (valid) std::copy_n(from.begin() + range.offset, range.length, part.begin());
      put_floats(store_.device(), range.of(to), part);
    };
    put(store_.parameters(), values_);
    put(store_.copy(), copies_);
  }

  std::vector<int> uses_;  // by parameter
  std::vector<float> values_;
  std::vector<float> copies_;
};

// A step with batch and weights, on a device with a memory limit.
struct Fixture {
  // ranges_of: the ranges of the store that the optimizer updates; null: all.
  using RangesOf = std::vector<StoreRange> (*)(const ParameterStore&);
  Fixture(std::size_t memory, const TrainingCase& c, RangesOf ranges_of = nullptr)
      : device(memory, 1),
        step(device, c, 1, {},
             [ranges_of](ParameterStore& store, Ops&) -> std::unique_ptr<ParallelStrategy> {
               if (ranges_of == nullptr) return std::make_unique<ParallelStrategy>(store);
               return std::make_unique<PartOnly>(store, ranges_of(store));
             }),
        runner(step, Timing::phases) {
    step.load(random_batch({.rows = c.batch_size, .context = c.context, .vocab = c.vocab}, 1));
    step.reset();
  }
  std::vector<float> weights() { return get_floats(device, step.model().store().parameters()); }
  Repetitions rehearse() {
    Repetitions cold = runner.rehearse();
    step.reset();
    return cold;
  }
  void run() { (void)runner.run(); }

  CpuDevice device;
  TrainingStep step;
  StepRunner runner;
};

TEST(TrainingStepTest, TheRehearsalIsAWholeStepAndAResetUndoesIt) {
  for (const char* precision : {"fp32", "fp16"}) {
    Fixture f(plenty, tiny(precision));
    const std::vector<float> drawn = f.weights();
    const Repetitions cold = f.rehearse();
    EXPECT_EQ(cold.seconds.size(), 4U);
    EXPECT_GE(cold.count(), 2U);
    EXPECT_EQ(f.weights(), drawn);
    EXPECT_EQ(f.step.state().get(f.device, StepScalar::step), 0);
    f.run();
    EXPECT_NE(f.weights(), drawn);
    EXPECT_EQ(f.step.state().get(f.device, StepScalar::step), 1);
  }
}

TEST(TrainingStepTest, TheTimeToLaunchAStepIsThatOfAllItsPhases) {
  class Slow final : public ParallelStrategy {
   public:
    using ParallelStrategy::ParallelStrategy;
    void begin_step() override { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }
  };
  CpuDevice device(plenty, 1);
  const TrainingCase c = tiny("fp32");
  TrainingStep step(device, c, 1, {},
                    [](ParameterStore& store, Ops&) { return std::make_unique<Slow>(store); });
  step.load(random_batch({.rows = c.batch_size, .context = c.context, .vocab = c.vocab}, 1));
  step.reset();
  StepRunner runner(step, Timing::step);
  for (int i = 0; i < 3; ++i) (void)runner.run();
  EXPECT_GE(runner.launch_seconds(), 0.02);
}

// For every memory limit, either the rehearsal runs out of memory or no later step does.
TEST(TrainingStepTest, AfterARehearsalNoStepLacksMemory) {
  const TrainingCase s = tiny("fp32", 500);
  const double predicted = memory_form(s.step_shape()).peak();
  int fitted = 0;
  int refused = 0;
  for (double share = 0.5; share < 1.3; share += 0.02) {
    try {
      Fixture f(static_cast<std::size_t>(share * predicted), s);
      (void)f.rehearse();
      f.device.freeze();
      for (int i = 0; i < 2; ++i) EXPECT_NO_THROW(f.run()) << share;
      ++fitted;
    } catch (const OutOfMemory&) {
      ++refused;
      EXPECT_LT(share, 1.1);
    }
  }
  EXPECT_GT(fitted, 3);
  EXPECT_GT(refused, 3);
}

// Adam's state of the head has the size of the logits. Forward has released the logits before the
// first optimizer step allocates the state, which takes their block.
TEST(TrainingStepTest, WhatTheFirstStepKeepsLeavesTheNextStepItsBlocks) {
  Fixture f(plenty, tiny("fp32"), [](const ParameterStore& store) {
    const ParameterEntry& head = store.entries().front();
    EXPECT_EQ(head.shape.numel(), 2 * 16 * 31);
    return std::vector<StoreRange>{{head.offset, head.shape.numel()}};
  });
  (void)f.rehearse();
  f.device.freeze();
  EXPECT_NO_THROW(f.run());
}

TEST(TrainingStepTest, AParameterIsReadBetweenAcquireAndReleaseOnly) {
  for (const char* precision : {"fp32", "bf16"}) {
    for (const int recompute : {0, 1, 2}) {
      TrainingCase c = tiny(precision);
      c.recompute = {.blocks = recompute};
      const auto trained = [&](const MakeStrategy& make_strategy) {
        CpuDevice device(plenty, 1);
        TrainingStep step(device, c, 1, {}, make_strategy);
        step.load(random_batch({.rows = c.batch_size, .context = c.context, .vocab = c.vocab}, 1));
        step.reset();
        for (int k = 0; k < 2; ++k) step.launch();
        return get_floats(device, step.model().store().parameters());
      };
      const std::vector<float> resident = trained(
          [](ParameterStore& store, Ops&) { return std::make_unique<ParallelStrategy>(store); });
      EXPECT_TRUE(std::isfinite(resident.front()));
      EXPECT_EQ(trained([](ParameterStore& store, Ops&) { return std::make_unique<Lent>(store); }),
                resident)
          << precision << ", recompute " << recompute;
    }
  }
}

TEST(TrainingStepTest, DivergesWhenTheLossIsNotFinite) {
  Fixture f(plenty, tiny("fp32"));
  f.run();
  EXPECT_EQ(f.step.divergence(), "");
  const std::vector<float> bad(f.weights().size(), std::nanf(""));
  f.device.to_device(f.step.model().store().parameters(), bad.data());
  f.run();
  EXPECT_EQ(f.step.divergence(), "the loss is nan");
}

TEST(TrainingStepTest, DivergesWhenAGradientOfTheShardIsNotFinite) {
  const auto in_two = [](const ParameterStore& store) {
    return std::vector<StoreRange>{{0, 8}, {8, store.size() - 8}};
  };
  const auto all_but_one = [](const ParameterStore& store) {
    return std::vector<StoreRange>{{0, store.size() - 1}};
  };
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
      const auto divergence = [&](Fixture::RangesOf ranges_of) {
        Fixture f(plenty, tiny(precision), ranges_of);
        f.run();
        const ParameterStore& store = f.step.model().store();
        f.device.to_device(store.gradients().slice(store.size() - 1, {1}), &bad);
        return f.step.divergence();
      };
      const std::string found = divergence(in_two);
      const bool skips_overflow = precision_named(precision).loss_scaling;
      EXPECT_EQ(found.starts_with("a gradient is not finite (the loss is "), !skips_overflow)
          << precision << ": " << found;
      EXPECT_EQ(divergence(all_but_one), "");
    }
  }
}

TEST(TrainingStepTest, MarksStandInTheOrderOfTheStepWithThePeaksOfItsPhases) {
  Fixture f(plenty, tiny("fp32"));
  (void)f.rehearse();
  f.runner.mark_memory("steady");
  f.run();
  f.run();  // not marked
  ASSERT_EQ(f.runner.marks().size(), 8U);
  const std::vector<std::string> names = {"after init", "before backward", "before optimizer",
                                          "after step"};
  const std::vector<std::string> phases = {"", "forward", "backward", "optimizer"};
  std::size_t most = 0;  // of a phase of the steady step
  for (std::size_t i = 0; i < 8; ++i) {
    const MemoryMark& mark = f.runner.marks()[i];
    EXPECT_EQ(mark.step, i < 4 ? "first" : "steady");
    EXPECT_EQ(mark.mark, names[i % 4]);
    EXPECT_GE(mark.peak_bytes, mark.bytes);
    EXPECT_EQ(mark.phase, phases[i % 4]);
    if (mark.phase.empty()) continue;
    EXPECT_GE(mark.phase_peak_bytes, mark.bytes);
    for (std::size_t k = 0; k < memory_kinds; ++k) {
      EXPECT_GE(mark.phase_peak_by_kind.at(k), mark.by_kind.at(k));
    }
    if (i >= 4) most = std::max(most, mark.phase_peak_bytes);
  }
  EXPECT_EQ(most, f.runner.marks().back().peak_bytes);
  const auto kind = [&](std::size_t i, MemoryKind k) {
    return f.runner.marks()[i].by_kind.at(static_cast<std::size_t>(k));
  };
  EXPECT_EQ(kind(0, MemoryKind::gradient), 0U);         // made at the first backward
  EXPECT_EQ(kind(2, MemoryKind::optimizer_state), 0U);  // made at the first optimizer step
  EXPECT_EQ(kind(3, MemoryKind::optimizer_state), 2 * kind(3, MemoryKind::parameter));
  EXPECT_GT(kind(1, MemoryKind::activation), 0U);
  EXPECT_EQ(kind(3, MemoryKind::activation), 0U);
  const auto activations = static_cast<std::size_t>(MemoryKind::activation);
  EXPECT_EQ(f.runner.marks().back().phase_peak_by_kind.at(activations), 0U);
}

TEST(TrainingCaseTest, OnlyALongFlatExchangeGainsNothingFromWindows) {
  TrainingCase c = tiny_training("fp32");
  c.strategy = Strategy::flat;
  EXPECT_TRUE(c.gains_from_windows());
  c.vocab = 400'000;  // embedding and head of 32 columns: 102.4 MB of gradients
  EXPECT_FALSE(c.gains_from_windows());
  c.comm_dtype = GradientDtype::bf16;
  EXPECT_TRUE(c.gains_from_windows());
  c.comm_dtype = GradientDtype::fp32;
  for (const Strategy other : {Strategy::naive, Strategy::bucketed, Strategy::zero1}) {
    c.strategy = other;
    EXPECT_TRUE(c.gains_from_windows());
  }
}

// An event that was reached at a given time.
class At final : public Event {
 public:
  explicit At(double seconds) : seconds_(seconds) {}
  void synchronize() override {}
  [[nodiscard]] double seconds_since(const Event& earlier) const override {
    return seconds_ - dynamic_cast<const At&>(earlier).seconds_;
  }

 private:
  double seconds_;
};
EventPtr at(double seconds) { return std::make_shared<At>(seconds); }

Exchange exchange(double begin, double end) {
  return {.op = "all_gather", .what = "w", .begin = at(begin), .end = at(end)};
}

// forward, backward, communication_exposed, optimizer, step
const PhaseSeconds phase_seconds = {1, 2, 0.5, 0.25, 4};

TEST(CommunicationTimes, WaitsForParametersAreExposed) {
  PhaseSeconds seconds = phase_seconds;
  add_communication_times(seconds, {exchange(0, 0.25), exchange(2, 3)},
                          {{"a", at(0), at(0.125)}, {"b", at(1), at(1.5)}});
  EXPECT_EQ(seconds, (PhaseSeconds{1, 2, 1.125, 0.25, 1.25, 4}));
}

TEST(CommunicationTimes, WithoutWaitsTheTimeAfterBackwardIsExposed) {
  PhaseSeconds seconds = phase_seconds;
  add_communication_times(seconds, {exchange(1, 1.5)}, {});
  EXPECT_EQ(seconds, (PhaseSeconds{1, 2, 0.5, 0.25, 0.5, 4}));
}

TEST(CommunicationTimes, WaitsAreSplitAtTheEndOfForward) {
  const WaitSeconds waited =
      wait_seconds({{"a", at(0), at(0.125)}, {"b", at(0.5), at(1)}, {"c", at(1), at(1.25)}}, At(1));
  EXPECT_EQ(waited.forward, 0.625);
  EXPECT_EQ(waited.backward, 0.25);
}

TEST(HostWaits, ReplaceTheTimeOfTheirPhase) {
  PhaseSeconds seconds = {1, 2, 0.25};
  add_host_waits(seconds, {{1, 1.5}, {2, 2.5}, {3, 0.5}});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 2.5, 0.5}));
  add_host_waits(seconds, {});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 2.5, 0.5}));
  // backward, communication_exposed and optimizer are one graph: the first of them has the rest.
  seconds = {1, 2, 0.5, 0.25};
  add_host_waits(seconds, {{1, 1.5}, {4, 4}});
  EXPECT_EQ(seconds, (PhaseSeconds{1.5, 3.25, 0.5, 0.25}));
}

}  // namespace
}  // namespace paceline
