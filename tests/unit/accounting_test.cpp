#include "model/accounting.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

StepShape shape(const std::string& size, Mode mode, const std::string& precision = "fp32") {
  StepShape s{.model = model_named(size), .precision = precision_named(precision), .mode = mode};
  return s;
}

TEST(AccountingTest, FlopsOfTheSmallModelByHand) {
  // R = 512: 2 R (12 (4 768^2 + 3 768 3072) + 768 10000) + 4 12 4 128^2 768
  const double forward =
      2.0 * 512 * (12.0 * (4 * 589824 + 3 * 2359296) + 7680000) + 4.0 * 12 * 4 * 16384 * 768;
  EXPECT_DOUBLE_EQ(model_flops(shape("small", Mode::forward)), forward);
  EXPECT_DOUBLE_EQ(model_flops(shape("small", Mode::inference)), forward);
  EXPECT_DOUBLE_EQ(model_flops(shape("small", Mode::forward_backward)), 3 * forward);
  EXPECT_DOUBLE_EQ(model_flops(shape("small", Mode::train_step)), 3 * forward);
}

TEST(AccountingTest, RecomputationAddsTheBlocksForwardToTheStepOnly) {
  StepShape s = shape("small", Mode::train_step);
  const double plain = step_flops(s);
  s.recompute = 1;
  const double head = 2.0 * 512 * 768 * 10000;
  EXPECT_DOUBLE_EQ(step_flops(s), plain + model_flops(shape("small", Mode::forward)) - head);
  EXPECT_DOUBLE_EQ(model_flops(s), plain);
}

TEST(AccountingTest, StateBytesPerParameter) {
  const auto n = static_cast<double>(model_named("2.7b").parameters());
  const MemoryForm fp32 = memory_form(shape("2.7b", Mode::train_step));
  EXPECT_DOUBLE_EQ(fp32.parameters + fp32.gradients + fp32.optimizer, 16 * n);
  const MemoryForm bf16 = memory_form(shape("2.7b", Mode::train_step, "bf16"));
  EXPECT_DOUBLE_EQ(bf16.parameters + bf16.gradients + bf16.optimizer, 18 * n);
  const MemoryForm inference = memory_form(shape("2.7b", Mode::inference));
  EXPECT_DOUBLE_EQ(inference.parameters, 4 * n);
  EXPECT_EQ(inference.gradients + inference.optimizer, 0);
}

TEST(AccountingTest, ModesAskForMoreInOrder) {
  double last = 0;
  for (const Mode mode :
       {Mode::inference, Mode::forward, Mode::forward_backward, Mode::train_step}) {
    const double peak = memory_form(shape("medium", mode)).peak();
    EXPECT_GT(peak, last);
    last = peak;
    EXPECT_GT(step_bytes(shape("medium", mode)), 0);
  }
}

}  // namespace
}  // namespace paceline
