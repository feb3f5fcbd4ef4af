// Flash attention on the GPU: every head dimension, mask, length, arithmetic and schedule;
// deterministic bits, graphs, refusals, and a workspace that is linear in the length.

#include <algorithm>
#include <set>
#include <tuple>

#include "core/error.h"
#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90_backward.h"
#include "tests/gpu/flash_on_gpu.h"

namespace paceline {
namespace {

TEST_P(FlashOnGpu, every_head_dimension_mask_and_length) {
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t context : {1, 17, 127, 128, 129, 1000}) {
      for (const bool causal : {false, true}) {
        FlashShape s = shape(2, context, 3, head_dim, causal);
        check(s);
        s.deterministic = true;
        check(s);
      }
    }
  }
}

TEST_P(FlashOnGpu, a_long_sequence) {
  for (const std::int64_t head_dim : head_dims) {
    for (const bool causal : {false, true}) check(shape(1, 4096, 1, head_dim, causal));
  }
}

// A grid's second dimension does not take all heads, so a call has two launches.
// Inputs are halved: the largest scores of 350,000 rows of normal inputs round by more than the
// tolerance of logsumexp.
TEST_P(FlashOnGpu, more_heads_than_a_grid_takes) {
  for (const FlashShape& s : {shape(70'000, 5, 1, 16, true), shape(2'100, 3, 32, 16, false)}) {
    SCOPED_TRACE(describe(s));
    const Inputs in = halved(s);
    compare(s, run(s, in), expected(s, in));
  }
}

// The kernel loops over keys from the last to the first. In every third row the scores of 64 keys
// are 3, 16 and 26 higher than those of the last 64: less than float16 takes without a new maximum,
// more than that, and more than bfloat16 takes. Forward only: in dQ the raise of the keys cancels,
// but the rounding of the operands does not.
TEST_P(FlashOnGpu, scores_that_rise_late) {
  constexpr std::array<double, 4> higher = {0, 3, 16, 26};
  for (const std::int64_t head_dim : head_dims) {
    for (const auto& [warpgroups, s] : refilling_rings(head_dim)) {
      const Inputs in = rising(
          s, [&](std::size_t block) { return higher.at(std::min(block, higher.size() - 1)); });
      SCOPED_TRACE(describe(s));
      compare_forward(s, run_forward(s, in), expected(s, in, FlashPass::forward));
    }
  }
}

// Each tile's scores exceed the limit of the last maximum, so that every tile is computed a second
// time; its keys must still be in shared memory. Checks O only: such a large logsumexp exceeds its
// tolerance.
TEST_P(FlashOnGpu, scores_that_rise_in_every_tile) {
  if (!uses_hopper(FlashPass::forward)) GTEST_SKIP() << "these kernels always look for the maximum";
  for (const std::int64_t head_dim : head_dims) {
    for (const auto& [warpgroups, s] : refilling_rings(head_dim)) {
      const Inputs in = rising(s, [](std::size_t block) { return 18 * block; });
      const Values want = expected(s, in, FlashPass::forward).o;
      const Values got = run_forward(s, in).o;
      SCOPED_TRACE(describe(s));
      EXPECT_LT(error(s, got, want), GetParam().tolerance);
      EXPECT_TRUE(every_element_is_right(got, want, FlashTolerances(want, s.head_dim, roundoff())));
    }
  }
}

TEST_P(FlashOnGpu, deterministic_gradients_repeat_bit_by_bit) {
  for (const std::int64_t head_dim : head_dims) {
    FlashShape s = shape(2, 1000, 3, head_dim, true);
    s.deterministic = true;
    const Inputs in = inputs(s);
    const Result first = run(s, in);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(run(s, in).dqkv, first.dqkv) << head_dim;
  }
}

TEST_P(FlashOnGpu, refuses_what_it_does_not_serve) {
  const FlashShape s = shape(1, 16, 1, 48, false);
  EXPECT_THROW(static_cast<void>(flash_plan(s)), EnvironmentError);
  EXPECT_THROW(static_cast<void>(flash_workspace_bytes(s, FlashPass::forward)), EnvironmentError);
  EXPECT_THROW(flash_forward({.shape = s}), EnvironmentError);
  EXPECT_THROW(flash_backward({.shape = s}), EnvironmentError);
}

TEST_P(FlashOnGpu, the_workspace_is_linear_in_the_length) {
  constexpr std::size_t head_dim = 64;
  constexpr std::size_t operands = 4 * head_dim * sizeof(float);  // of bf16x3
  constexpr std::size_t gradients = 3 * head_dim * sizeof(float);
  for (std::int64_t context = 128; context <= 65536; context *= 2) {
    const FlashShape s = shape(1, context, 1, head_dim, true);
    const auto positions = static_cast<std::size_t>(context);
    EXPECT_LE(flash_workspace_bytes(s, FlashPass::forward), positions * operands);
    EXPECT_LE(flash_workspace_bytes(s, FlashPass::backward),
              positions * (gradients + operands + 64));
  }
}

// One causal head, all of whose tiles are split, and a call with mostly data-parallel tiles.
TEST_P(FlashOnGpu, a_graph_replays_it) {
  for (const FlashShape& s : {shape(1, 2000, 1, 64, true), shape(1, 1040, 18, 64, false)}) {
    SCOPED_TRACE(describe(s));
    const Inputs in = inputs(s);
    const Result want = expected(s, in);
    const Outputs out = outputs(s);
    cudaStream_t stream = nullptr;
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    enqueue(s, in, out, stream);
    CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
    CUDA_CHECK(cudaGraphInstantiate(&replay, graph, 0));
    CUDA_CHECK(cudaGraphLaunch(replay, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    poison(out);
    for (int i = 0; i < 2; ++i) CUDA_CHECK(cudaGraphLaunch(replay, stream));
    CUDA_CHECK(cudaStreamSynchronize(stream));
    compare(s, result(out), want);
    CUDA_CHECK(cudaGraphExecDestroy(replay));
    CUDA_CHECK(cudaGraphDestroy(graph));
    CUDA_CHECK(cudaStreamDestroy(stream));
  }
}

// Every tile size with data-parallel tiles, split-KV tiles or both, with and without a mask.
TEST_P(FlashOnGpu, every_schedule) {
  if (!uses_hopper(FlashPass::forward)) GTEST_SKIP() << "these kernels have one schedule";
  for (const std::int64_t head_dim : head_dims) {
    using Schedule = std::tuple<int, bool, bool, bool>;
    const auto schedules = smallest_of_each(head_dim, [](const ForwardPlan& plan,
                                                         const FlashShape& s) {
      const bool data_parallel = plan.scheduler.data_parallel_waves() > 0;
      return std::optional(Schedule{plan.warpgroups, data_parallel, plan.parts() > 1, s.causal});
    });
    std::map<int, FlashShape> sizes;
    std::set<std::pair<bool, bool>> kinds;
    for (const auto& [schedule, s] : schedules) {
      sizes.emplace(std::get<0>(schedule), s);
      kinds.emplace(std::get<1>(schedule), std::get<2>(schedule));
      check(s);
    }
    expect_every_size(head_dim, sizes);
    EXPECT_EQ(kinds.size(), splits_tiles() ? 3 : 1) << head_dim;
  }
}

// Blocks that compute several tiles, and more blocks than are resident at once.
TEST_P(FlashOnGpu, more_tiles_than_multiprocessors) {
  for (const std::int64_t head_dim : {16, 64, 80, 128}) {
    for (const bool causal : {false, true}) {
      FlashShape s = shape(1, 264, 132, head_dim, causal);
      if (splits_tiles()) {
        EXPECT_GT(ForwardPlan(s).order.tiles(), multiprocessors());
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

// Backward with stream-K units that continue from tile to tile: without a mask after data-parallel
// tiles, with a mask over three tiles or more.
TEST_P(FlashOnGpu, tiles_split_by_stream_k) {
  if (!uses_hopper(FlashPass::backward)) GTEST_SKIP() << "these kernels do not split tiles";
  const auto max_parts = [](const StreamKScheduler& scheduler) {
    int most = 0;
    for (int unit = 0; unit < scheduler.units(); ++unit) {
      int parts = 0;
      scheduler.for_each_part(unit, [&](const WorkItem&) { ++parts; });
      most = std::max(most, parts);
    }
    return most;
  };
  for (const std::int64_t head_dim : head_dims) {
    for (const bool causal : {false, true}) {
      const auto scheduler = [&](const FlashShape& s) {
        return dispatch_head_dim(head_dim, [&]<int HeadDim>() {
          return BackwardPlan<BackwardTile<HeadDim>>(s).scheduler;
        });
      };
      const auto wanted = [&](const FlashShape& s) {
        const StreamKScheduler found = scheduler(s);
        return causal ? max_parts(found) >= 3
                      : found.data_parallel_tiles() > 0 && max_parts(found) == 2;
      };
      FlashShape s = shape(1, 1040, 1, head_dim, causal);
      while (s.heads < 100 && !wanted(s)) ++s.heads;
      ASSERT_TRUE(wanted(s)) << head_dim;
      check(s);
      if (causal) continue;
      s.heads = 34;  // in sections
      EXPECT_TRUE(scheduler(s).order().has_sections() || head_dim < 128);
      EXPECT_GT(scheduler(s).stream_k_tiles(), 0);
      check(s);
    }
  }
}

// The tiles of one sequence are split over the multiprocessors.
TEST_P(FlashOnGpu, one_head) {
  for (const std::int64_t head_dim : head_dims) {
    for (const std::int64_t context : {100, 500, 2000, 3000}) {
      for (const bool causal : {false, true}) {
        const FlashShape s = shape(1, context, 1, head_dim, causal);
        const FlashPlan plan = flash_plan(s);
        if (splits_tiles() && context >= 2000) {
          EXPECT_GT(plan.forward.parts, 1);
          EXPECT_GT(plan.backward.parts, 1);
        }
        check(s);
      }
    }
  }
}

// More heads than fit into the L2 cache together, in both passes: two sections, the last one short.
// Every head of the result is compared, which reveals heads that are computed twice or not at all.
TEST_P(FlashOnGpu, heads_in_sections) {
  if (!uses_hopper(FlashPass::forward)) GTEST_SKIP() << "these kernels have no sections";
  const FlashShape s = shape(1, 264, 250, 128, true);
  const auto expect_short_last_section = [&](const TileOrder& order) {
    EXPECT_TRUE(order.has_sections());
    // Within a section tiles are in LPT order. The second section starts again with a longest tile,
    // of the first head after the first section.
    int first = 1;
    while (first < order.tiles() &&
           order.tile(first).index_in_head >= order.tile(first - 1).index_in_head)
      ++first;
    ASSERT_LT(first, order.tiles());
    EXPECT_EQ(order.tile(first).head, first / order.tiles_per_head());
    EXPECT_NE(order.all_heads() % (first / order.tiles_per_head()), 0)
        << "the last section is whole";
  };
  expect_short_last_section(ForwardPlan(s).order);
  if (uses_hopper(FlashPass::backward)) {
    expect_short_last_section(BackwardPlan<BackwardTile<128>>(s).scheduler.order());
  }
  check(s);
}

// Clusters that combine the parts of several tiles, one after another.
TEST_P(FlashOnGpu, several_tiles_in_parts) {
  if (!splits_tiles()) GTEST_SKIP() << "these kernels do not split tiles";
  for (const std::int64_t head_dim : head_dims) {
    const auto calls = smallest_of_each(head_dim, [](const ForwardPlan& plan, const FlashShape&) {
      const bool again = plan.scheduler.waves() - plan.scheduler.data_parallel_waves() > 1;
      return plan.parts() > 1 && again ? std::optional(plan.warpgroups) : std::nullopt;
    });
    expect_every_size(head_dim, calls);
    for (const auto& [warpgroups, s] : calls) check(s);
  }
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
  if (!splits_tiles()) {
    EXPECT_EQ(plan.forward.parts, 1);
    EXPECT_EQ(plan.backward.parts, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, FlashOnGpu, ::testing::ValuesIn(arithmetics),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace paceline
