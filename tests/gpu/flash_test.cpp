// Flash attention on the GPU: every head dimension, mask, length and arithmetic, and what a call
// may count on: repeated bits, graphs, refusals, a workspace linear in the length.

#include <set>

#include "core/error.h"
#include "tests/gpu/flash_on_gpu.h"

namespace paceline {
namespace {

TEST_P(FlashOnGpu, every_head_dimension_mask_and_length) {
  for (const std::int64_t head_dim : {16, 32, 64, 80, 128}) {
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
  for (const std::int64_t head_dim : {16, 32, 64, 80, 128}) {
    for (const bool causal : {false, true}) check(shape(1, 4096, 1, head_dim, causal));
  }
}

// Keys come from the last to the first, and of every third row the scores of 64 keys are 3, 9 and
// 12 higher than those of the last 64: by less than what is left alone, by more, by less again. By
// the last dimension, so that the others' products are not added to a large sum.
TEST_P(FlashOnGpu, scores_that_rise_late) {
  struct Size {
    std::int64_t context, heads, head_dim;
  };
  std::vector<Size> sizes = {{300, 2, 16}};
  if (uses_hopper(FlashPass::forward)) {
    sizes = {{500, 120, 16}, {200, 100, 64}, {300, 60, 64},
             {250, 60, 80},  {2000, 1, 64},  {300, 60, 128}};
  }
  std::set<std::pair<std::int64_t, std::int64_t>> tiles;
  for (const Size& size : sizes) {
    for (const bool causal : {false, true}) {
      const FlashShape s = shape(1, size.context, size.heads, size.head_dim, causal);
      tiles.emplace(flash_plan(s).forward.queries, flash_plan(s).forward.keys);
      Inputs in = inputs(s);
      Values qkv = read(*gpu, *gpu_ops, in.qkv);
      const double unit = std::sqrt(static_cast<double>(s.head_dim)) / 16;  // a score higher by 1
      const auto last_of = [&](std::int64_t position, int which, std::int64_t head) -> double& {
        const auto row = (position * 3 + which) * s.heads + head;
        return qkv.at(static_cast<std::size_t>((row + 1) * s.head_dim - 1));
      };
      for (std::int64_t position = 0; position < s.context; ++position) {
        const auto block = static_cast<std::size_t>((s.context - 1 - position) / 64);
        constexpr std::array<double, 4> higher = {0, 3, 9, 12};
        for (std::int64_t head = 0; head < s.heads; ++head) {
          last_of(position, 0, head) = position % 3 == 0 ? 16 : 0;
          last_of(position, 1, head) = unit * higher.at(std::min(block, higher.size() - 1));
        }
      }
      in.qkv = write(*gpu, *gpu_ops, packed(s), s.dtype, qkv);
      SCOPED_TRACE(testing::Message() << "T " << s.context << " H " << s.heads << " d "
                                      << s.head_dim << (causal ? " causal" : ""));
      compare(s, run(s, in), expected(s, in));
    }
  }
  if (divides() && multiprocessors() == 132) {
    const decltype(tiles) want = {{64, 128}, {128, 128}, {192, 128}, {256, 64}, {128, 176}};
    EXPECT_EQ(tiles, want);
  }
}

TEST_P(FlashOnGpu, deterministic_gradients_repeat_bit_by_bit) {
  for (const std::int64_t head_dim : {16, 32, 64, 80, 128}) {
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
  constexpr std::size_t operands = 4 * head_dim * sizeof(float);  // of near
  constexpr std::size_t gradients = 3 * head_dim * sizeof(float);
  for (std::int64_t context = 128; context <= 65536; context *= 2) {
    const FlashShape s = shape(1, context, 1, head_dim, true);
    const auto positions = static_cast<std::size_t>(context);
    EXPECT_LE(flash_workspace_bytes(s, FlashPass::forward), positions * operands);
    EXPECT_LE(flash_workspace_bytes(s, FlashPass::backward),
              positions * (gradients + operands + 64));
  }
}

TEST_P(FlashOnGpu, a_graph_replays_it) {
  const FlashShape s = shape(1, 2000, 1, 64, true);
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
  for (int i = 0; i < 3; ++i) CUDA_CHECK(cudaGraphLaunch(replay, stream));
  CUDA_CHECK(cudaStreamSynchronize(stream));
  compare(s, result(out), want);
  CUDA_CHECK(cudaGraphExecDestroy(replay));
  CUDA_CHECK(cudaGraphDestroy(graph));
  CUDA_CHECK(cudaStreamDestroy(stream));
}

// For flash_plan_test.cpp, too.
INSTANTIATE_TEST_SUITE_P(Arithmetics, FlashOnGpu, ::testing::ValuesIn(arithmetics),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace paceline
