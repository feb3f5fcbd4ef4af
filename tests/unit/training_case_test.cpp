#include "experiments/training/training_case.h"

#include <gtest/gtest.h>

#include "tiny_training.h"

namespace paceline {
namespace {

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

}  // namespace
}  // namespace paceline
