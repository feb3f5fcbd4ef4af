// Flash attention on the GPU in every way over its tiles: by their sizes, whole, in parts, in
// turns.

#include <set>

#include "cuda/attention/head_dim.h"
#include "tests/gpu/flash_on_gpu.h"

namespace paceline {
namespace {

TEST_P(FlashOnGpu, every_way_over_the_tiles) {
  for (const std::int64_t head_dim : head_dims) {
    std::set<int> warpgroups;
    for (const FlashShape& s : one_of_each_way(head_dim)) {
      if (divides()) warpgroups.insert(ForwardPlan(s).warpgroups);
      check(s);
    }
    if (divides() && multiprocessors() == 132) {
      EXPECT_EQ(warpgroups.size(), most_warpgroups(head_dim)) << head_dim;
    }
  }
}

// Blocks that compute several tiles, and more blocks than run at once.
TEST_P(FlashOnGpu, more_tiles_than_multiprocessors) {
  for (const std::int64_t head_dim : {16, 64, 80, 128}) {
    for (const bool causal : {false, true}) {
      FlashShape s = shape(1, 264, 132, head_dim, causal);
      if (divides()) {
        EXPECT_GT(ForwardPlan(s).order.items(), multiprocessors());
      }
      check(s);
      s.deterministic = true;
      const Inputs in = inputs(s);
      const Result first = run(s, in);
      EXPECT_EQ(run(s, in).dqkv, first.dqkv) << head_dim;
      if (head_dim == 128) compare(s, first, expected(s, in));
    }
  }
}

// One sequence's tiles are divided over the multiprocessors.
TEST_P(FlashOnGpu, one_head) {
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t context : {100, 500, 2000, 3000}) {
      for (const bool causal : {false, true}) {
        const FlashShape s = shape(1, context, 1, head_dim, causal);
        const FlashPlan plan = flash_plan(s);
        if (divides() && context >= 2000) {
          EXPECT_GT(plan.forward.parts, 1);
          EXPECT_GT(plan.backward.parts, 1);
        }
        check(s);
      }
    }
  }
}

// More heads than stay in the L2 cache together.
TEST_P(FlashOnGpu, heads_in_sections) { check(shape(1, 264, 250, 128, true)); }

// Clusters that put together one tile after another, three times.
TEST_P(FlashOnGpu, several_tiles_in_parts) {
  const FlashShape s = shape(1, 3000, 6, 128, true);
  if (divides() && multiprocessors() == 132) {
    const ForwardPlan plan(s);
    EXPECT_GT(plan.parts(), 1);
    EXPECT_GE(plan.turns.rounds(), 3);
  }
  check(s);
}

TEST_P(FlashOnGpu, the_plan_names_every_tile) {
  const FlashPlan plan = flash_plan(shape(1, 1000, 1, 64, true));
  const auto expect_kernels = [&](const FlashTiles& tiles, FlashPass pass) {
    const bool exact = GetParam().fp32 == Fp32Attention::exact;
    EXPECT_STREQ(tiles.kernels, uses_hopper(pass) ? "sm90" : exact ? "exact" : "sm80");
  };
  expect_kernels(plan.forward, FlashPass::forward);
  expect_kernels(plan.backward, FlashPass::backward);
  for (const std::int64_t rows :
       {plan.forward.queries, plan.forward.keys, plan.backward.queries, plan.backward.keys}) {
    EXPECT_GE(rows, 32);
  }
  if (!divides()) {
    EXPECT_EQ(plan.forward.parts, 1);
    EXPECT_EQ(plan.backward.parts, 1);
  }
}

}  // namespace
}  // namespace paceline
