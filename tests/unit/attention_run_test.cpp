// What `attention` measures: memory as the closed forms say, phases that leave nothing behind.

#include "experiments/attention/attention_run.h"

#include <gtest/gtest.h>

#include "cpu/cpu_device.h"
#include "model/attention_accounting.h"

namespace paceline {
namespace {

constexpr std::size_t memory = std::size_t{1} << 28;

TEST(AttentionRunTest, MemoryIsThatOfTheClosedForms) {
  for (const AttentionKind kind :
       {AttentionKind::naive, AttentionKind::fused, AttentionKind::flash}) {
    for (const char* precision : {"fp32", "bf16"}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " " << precision);
      const OpsConfig config{.precision = precision_named(precision), .attention = kind};
      const AttentionShape shape{2, 128, 3, 64, true};
      CpuDevice device(memory, 2);
      AttentionRun run(device, config, shape, 1 << 20);
      run.load(AttentionInputs(shape, config.precision.compute, 1, 0));
      const AttentionBytes bytes = run.rehearse();
      const AttentionMemory form = attention_memory(kind, config.precision, shape, true);
      EXPECT_EQ(static_cast<double>(bytes.saved), form.saved);
      EXPECT_EQ(static_cast<double>(bytes.before_backward), form.before_backward);
      EXPECT_NEAR(static_cast<double>(bytes.peak), form.peak, 0.02 * form.peak);
      EXPECT_LE(bytes.workspace, bytes.peak);
    }
  }
}

TEST(AttentionRunTest, RepetitionsNeedWhatTheRehearsalReserved) {
  const AttentionShape shape{1, 70, 2, 16, false};
  for (const std::int64_t flush : {0, 1 << 20}) {
    const OpsConfig config{.precision = precision_named("bf16")};
    CpuDevice device(memory, 2);
    AttentionRun run(device, config, shape, flush);
    run.load(AttentionInputs(shape, Dtype::bf16, 1, 0));
    (void)run.rehearse();
    const std::size_t before = device.ledger().bytes();
    device.freeze();
    for (int i = 0; i < 2; ++i) {
      const PhaseSeconds seconds = run.repetition();
      ASSERT_EQ(seconds.size(), 3U);
      for (const double s : seconds) EXPECT_GT(s, 0);
    }
    EXPECT_EQ(device.ledger().bytes(), before);
  }
}

TEST(AttentionRunTest, ReplaysOfWhatWasCaptured) {
  const AttentionShape shape{1, 20, 2, 16, true};
  const OpsConfig config{.precision = precision_named("fp32"), .attention = AttentionKind::flash};
  CpuDevice device(memory, 1);
  AttentionRun run(device, config, shape, 0);
  run.load(AttentionInputs(shape, Dtype::f32, 1, 0));
  (void)run.rehearse();
  device.freeze();
  run.capture();
  EXPECT_EQ(run.repetition().size(), 3U);
}

}  // namespace
}  // namespace paceline
