#include "experiments/training/training_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "cpu/cpu_device.h"
#include "parallel/no_sync.h"

namespace paceline {
namespace {

StepShape shape(const std::string& precision, std::int64_t vocab = 31) {
  return {
      .model = {.vocab = vocab, .context = 16, .d_model = 32, .d_ff = 64, .layers = 2, .heads = 2},
      .precision = precision_named(precision),
      .batch = 2,
      .widens_gemms = true};
}

// A step on a device with this much memory, with its batch and weights.
struct Fixture {
  Fixture(std::size_t memory, const StepShape& s)
      : device(memory, 1), step(device, s, {.precision = s.precision}, ModelOptions{}, 3) {
    step.load(
        random_batch({.rows = s.batch, .context = s.model.context, .vocab = s.model.vocab}, 1));
    step.reset();
  }
  std::vector<float> weights() {
    const Tensor flat = step.model().store().parameters();
    std::vector<float> host(static_cast<std::size_t>(flat.numel()));
    device.to_host(host.data(), flat);
    return host;
  }

  CpuDevice device;
  TrainingStep step;
  NoSync sync;
};

constexpr std::size_t plenty = std::size_t{1} << 28;

TEST(TrainingStepTest, TheRehearsalIsAWholeStepAndIsUndone) {
  for (const char* precision : {"fp32", "fp16"}) {
    Fixture f(plenty, shape(precision));
    const std::vector<float> drawn = f.weights();
    const PhaseSeconds cold = f.step.rehearse(f.sync);
    EXPECT_EQ(cold.size(), 4U);
    EXPECT_EQ(f.weights(), drawn);
    EXPECT_EQ(f.step.state().get(f.device, StepScalar::step), 0);
    (void)f.step.run(f.sync);
    EXPECT_NE(f.weights(), drawn);
    EXPECT_EQ(f.step.state().get(f.device, StepScalar::step), 1);
  }
}

TEST(TrainingStepTest, ARehearsedStepEqualsAnUnrehearsedOne) {
  Fixture rehearsed(plenty, shape("bf16"));
  (void)rehearsed.step.rehearse(rehearsed.sync);
  Fixture plain(plenty, shape("bf16"));
  for (int i = 0; i < 2; ++i) {
    (void)rehearsed.step.run(rehearsed.sync);
    (void)plain.step.run(plain.sync);
  }
  EXPECT_EQ(rehearsed.weights(), plain.weights());
}

// Whatever the limit: either the rehearsal says that it does not fit, or every later step does.
TEST(TrainingStepTest, AfterARehearsalNoStepLacksMemory) {
  const StepShape s = shape("fp32", 500);
  const double predicted = memory_form(s).peak();
  int fitted = 0;
  int refused = 0;
  for (double share = 0.5; share < 1.3; share += 0.02) {
    try {
      Fixture f(static_cast<std::size_t>(share * predicted), s);
      (void)f.step.rehearse(f.sync);
      f.device.freeze();
      for (int i = 0; i < 2; ++i) EXPECT_NO_THROW((void)f.step.run(f.sync)) << share;
      ++fitted;
    } catch (const OutOfMemory&) {
      ++refused;
      EXPECT_LT(share, 1.1);
    }
  }
  EXPECT_GT(fitted, 3);
  EXPECT_GT(refused, 3);
}

// Adam's state of the head alone has the size of the logits, which forward released before the
// first optimizer step allocated the state.
TEST(TrainingStepTest, WhatTheFirstStepKeepsLeavesTheNextStepItsBlocks) {
  Fixture f(plenty, shape("fp32"));
  const ParameterEntry& head = f.step.model().store().entries().front();
  ASSERT_EQ(head.shape.numel(), 2 * 16 * 31);
  f.step.optimize({.ranges = {{head.offset, head.shape.numel()}}, .agree = nullptr});
  (void)f.step.rehearse(f.sync);
  f.device.freeze();
  EXPECT_NO_THROW((void)f.step.run(f.sync));
}

TEST(TrainingStepTest, DivergesWhenTheLossIsNotFinite) {
  Fixture f(plenty, shape("fp32"));
  const Shard whole = Shard::whole(f.step.model().store());
  (void)f.step.run(f.sync);
  EXPECT_EQ(f.step.divergence(whole), "");
  const std::vector<float> bad(f.weights().size(), std::nanf(""));
  f.device.to_device(f.step.model().store().parameters(), bad.data());
  (void)f.step.run(f.sync);
  EXPECT_EQ(f.step.divergence(whole), "the loss is nan");
}

TEST(TrainingStepTest, DivergesWhenAGradientOfTheShardIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const char* precision : {"fp32", "bf16", "fp16"}) {
      Fixture f(plenty, shape(precision));
      (void)f.step.run(f.sync);
      const ParameterStore& store = f.step.model().store();
      f.device.to_device(store.gradients().slice(store.size() - 1, {1}), &bad);
      const Shard all{.ranges = {{0, 8}, {8, store.size() - 8}}, .agree = nullptr};
      const std::string found = f.step.divergence(all);
      const bool skips_overflow = precision_named(precision).loss_scaling;
      EXPECT_EQ(found.starts_with("a gradient is not finite (the loss is "), !skips_overflow)
          << precision << ": " << found;
      EXPECT_EQ(f.step.divergence({.ranges = {{0, store.size() - 1}}, .agree = nullptr}), "");
    }
  }
}

TEST(TrainingStepTest, MarksStandInTheOrderOfTheStep) {
  Fixture f(plenty, shape("fp32"));
  (void)f.step.rehearse(f.sync);
  f.step.mark_memory("steady");
  (void)f.step.run(f.sync);
  (void)f.step.run(f.sync);  // not marked
  ASSERT_EQ(f.step.marks().size(), 8U);
  const std::vector<std::string> names = {"after init", "before backward", "before optimizer",
                                          "after step"};
  for (std::size_t i = 0; i < 8; ++i) {
    const MemoryMark& mark = f.step.marks()[i];
    EXPECT_EQ(mark.step, i < 4 ? "first" : "steady");
    EXPECT_EQ(mark.mark, names[i % 4]);
    EXPECT_GE(mark.peak_bytes, mark.bytes);
  }
  const auto kind = [&](std::size_t i, MemoryKind k) {
    return f.step.marks()[i].by_kind.at(static_cast<std::size_t>(k));
  };
  EXPECT_EQ(kind(0, MemoryKind::gradient), 0U);         // made at the first backward
  EXPECT_EQ(kind(2, MemoryKind::optimizer_state), 0U);  // made at the first optimizer step
  EXPECT_EQ(kind(3, MemoryKind::optimizer_state), 2 * kind(3, MemoryKind::parameter));
  EXPECT_GT(kind(1, MemoryKind::activation), 0U);
  EXPECT_EQ(kind(3, MemoryKind::activation), 0U);
}

TEST(TrainingStepTest, EveryPhaseHasItsPeaks) {
  Fixture f(plenty, shape("fp32"));
  (void)f.step.rehearse(f.sync);
  f.step.mark_memory("steady");
  (void)f.step.run(f.sync);
  const std::vector<std::string> phases = {"", "forward", "backward", "optimizer"};
  std::size_t most = 0;
  for (std::size_t i = 4; i < 8; ++i) {
    const MemoryMark& mark = f.step.marks().at(i);
    EXPECT_EQ(mark.phase, phases[i - 4]);
    if (mark.phase.empty()) continue;
    EXPECT_GE(mark.phase_peak_bytes, mark.bytes);
    for (std::size_t k = 0; k < memory_kinds; ++k) {
      EXPECT_GE(mark.phase_peak_by_kind.at(k), mark.by_kind.at(k));
    }
    most = std::max(most, mark.phase_peak_bytes);
  }
  EXPECT_EQ(most, f.step.marks().back().peak_bytes);
  const auto activations = static_cast<std::size_t>(MemoryKind::activation);
  EXPECT_EQ(f.step.marks().back().phase_peak_by_kind.at(activations), 0U);
}

}  // namespace
}  // namespace paceline
