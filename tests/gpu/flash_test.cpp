// Flash attention on the GPU against the CPU oracle in float64 on the same rounded inputs: every
// head dimension, mask, length and arithmetic, views of packed qkv, outputs and workspace poisoned.

#include "cuda/attention/flash.h"

#include <cuda_runtime.h>

#include <array>
#include <set>

#include "core/error.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/check.h"
#include "cuda/current_device.h"
#include "tests/gpu/oracle.h"

namespace paceline {
namespace {

struct Arithmetic {
  const char* name;
  const char* precision;
  Fp32Attention fp32;
  double bar;  // of relative L2 distance
  double bar_logsumexp;
  FlashKernels kernels = FlashKernels::newest;
};
constexpr std::array<Arithmetic, 8> arithmetics = {
    {{"bf16", "bf16", Fp32Attention::near, 5e-3, 1e-5},
     {"fp16", "fp16", Fp32Attention::near, 1e-3, 1e-5},
     {"bf16_sm80", "bf16", Fp32Attention::near, 5e-3, 1e-5, FlashKernels::sm80},
     {"fp16_sm80", "fp16", Fp32Attention::near, 1e-3, 1e-5, FlashKernels::sm80},
     {"tf32", "fp32", Fp32Attention::tf32, 1e-3, 2e-3},
     {"near", "fp32", Fp32Attention::near, 2e-5, 5e-5},
     {"near_sm80", "fp32", Fp32Attention::near, 2e-5, 5e-5, FlashKernels::sm80},
     {"exact", "fp32", Fp32Attention::exact, 2e-6, 1e-5}}};

using Values = std::vector<double>;

// dqkv [B, T, 3, H, d], o [B, T, H, d], logsumexp [B, H, T]
struct Result {
  Values o, logsumexp, dqkv;
};

class FlashOnGpu : public ::testing::TestWithParam<Arithmetic> {
 protected:
  void SetUp() override {
    if (gpu_of_rank(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    gpu_ops = gpu->make_ops({.precision = precision_named(GetParam().precision)});
    cpu_ops = cpu.make_ops({.precision = precision_named("fp64")});
  }

  struct Inputs {
    Array qkv;  // [B, T, 3, H, d]
    Array d_o;  // [B, T, H, d]
  };
  static Shape packed(const FlashShape& s) { return {s.batch, s.context, 3, s.heads, s.head_dim}; }
  static Shape plain(const FlashShape& s) { return {s.batch, s.context, s.heads, s.head_dim}; }
  static Shape rows(const FlashShape& s) { return {s.batch, s.heads, s.context}; }

  Inputs inputs(const FlashShape& s) {
    const auto normal = [&](const Shape& shape) {
      std::vector<float> drawn(static_cast<std::size_t>(shape.numel()));
      Random(5, streams++).fill_normal(drawn);
      return write(*gpu, *gpu_ops, shape, s.dtype, {drawn.begin(), drawn.end()});
    };
    Array qkv = normal(packed(s));
    return {qkv, normal(plain(s))};
  }
  // What an upload used before may still be read on the device's stream.
  Array poisoned(const Shape& shape, Dtype dtype) {
    gpu->synchronize();
    Array x = gpu->allocate(shape, dtype, MemoryKind::workspace);
    const auto bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
    CUDA_CHECK(cudaMemset(x.tensor().data, 0xff, bytes));
    return x;
  }
  Array poisoned_workspace(const FlashShape& s, FlashPass pass) {
    const auto bytes = static_cast<std::int64_t>(flash_workspace_bytes(s, pass));
    return poisoned({bytes / 4 + 1}, Dtype::f32);
  }
  static FlashHeads pointers(const Heads& x) {
    return {x.tensor.data, x.batch_stride, x.row_stride, x.head_stride};
  }

  // What a call writes, poisoned.
  struct Outputs {
    Array dqkv, o, logsumexp, forward_space, backward_space;
  };
  Outputs outputs(const FlashShape& s) {
    Outputs out{poisoned(packed(s), s.dtype), poisoned(plain(s), s.dtype),
                poisoned(rows(s), Dtype::f32), poisoned_workspace(s, FlashPass::forward),
                poisoned_workspace(s, FlashPass::backward)};
    CUDA_CHECK(cudaDeviceSynchronize());
    return out;
  }
  void enqueue(const FlashShape& s, const Inputs& in, const Outputs& out, cudaStream_t stream) {
    const QkvHeads x(in.qkv);
    const QkvHeads dx(out.dqkv);
    flash_forward({.shape = s,
                   .scale = scale_of(s),
                   .q = pointers(x.q),
                   .k = pointers(x.k),
                   .v = pointers(x.v),
                   .o = pointers(Heads(out.o)),
                   .logsumexp = out.logsumexp.tensor().as<float>(),
                   .workspace = out.forward_space.tensor().data,
                   .stream = stream});
    flash_backward({.shape = s,
                    .scale = scale_of(s),
                    .q = pointers(x.q),
                    .k = pointers(x.k),
                    .v = pointers(x.v),
                    .o = pointers(Heads(out.o)),
                    .d_o = pointers(Heads(in.d_o)),
                    .logsumexp = out.logsumexp.tensor().as<float>(),
                    .dq = pointers(dx.q),
                    .dk = pointers(dx.k),
                    .dv = pointers(dx.v),
                    .workspace = out.backward_space.tensor().data,
                    .stream = stream});
  }
  Result result(const Outputs& out) {
    CUDA_CHECK(cudaDeviceSynchronize());
    return {read(*gpu, *gpu_ops, out.o), read(*gpu, *gpu_ops, out.logsumexp),
            read(*gpu, *gpu_ops, out.dqkv)};
  }
  Result run(const FlashShape& s, const Inputs& in) {
    const Outputs out = outputs(s);
    enqueue(s, in, out, nullptr);
    return result(out);
  }

  Result expected(const FlashShape& s, const Inputs& in) {
    const auto wide = [&](const Array& x, const Shape& shape) {
      return write(cpu, *cpu_ops, shape, Dtype::f64, read(*gpu, *gpu_ops, x));
    };
    const Array qkv = wide(in.qkv, packed(s));
    const Array d_o = wide(in.d_o, plain(s));
    const Array dqkv = cpu.allocate(packed(s), Dtype::f64, MemoryKind::workspace);
    const Array o = cpu.allocate(plain(s), Dtype::f64, MemoryKind::workspace);
    const Array logsumexp = cpu.allocate(rows(s), Dtype::f64, MemoryKind::workspace);
    const QkvHeads x(qkv);
    const QkvHeads dx(dqkv);
    const ScoreOptions scores{.scale = scale_of(s), .causal = s.causal};
    cpu_ops->flash_attention(Heads(o), logsumexp, x.q, x.k, x.v, scores);
    cpu_ops->flash_attention_backward(dx.q, dx.k, dx.v, Heads(d_o), x.q, x.k, x.v, Heads(o),
                                      logsumexp, scores);
    return {read(cpu, *cpu_ops, o), read(cpu, *cpu_ops, logsumexp), read(cpu, *cpu_ops, dqkv)};
  }

  static float scale_of(const FlashShape& s) {
    return 1 / std::sqrt(static_cast<float>(s.head_dim));
  }
  // q's, k's or v's part of packed gradients.
  static Values part(const FlashShape& s, const Values& dqkv, std::size_t which) {
    const auto width = static_cast<std::size_t>(s.heads * s.head_dim);
    Values out;
    for (std::size_t row = which * width; row < dqkv.size(); row += 3 * width) {
      const auto begin = dqkv.begin() + static_cast<std::ptrdiff_t>(row);
      out.insert(out.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
    }
    return out;
  }
  // ||got - want|| / max(||want||, what as many random terms of weight 1 / T come to): dQ and dK
  // vanish at length 1.
  static double error(const FlashShape& s, const Values& got, const Values& want) {
    return distance(got, want, 1 / std::sqrt(static_cast<double>(s.context)));
  }

  void check(const FlashShape& s) {
    SCOPED_TRACE(testing::Message()
                 << GetParam().name << " B " << s.batch << " T " << s.context << " H " << s.heads
                 << " d " << s.head_dim << (s.causal ? " causal" : "")
                 << (s.deterministic ? " deterministic" : ""));
    const Inputs in = inputs(s);
    compare(s, run(s, in), expected(s, in));
  }
  void compare(const FlashShape& s, const Result& got, const Result& want) {
    EXPECT_LT(error(s, got.o, want.o), GetParam().bar) << "O";
    const std::array<const char*, 3> names = {"dQ", "dK", "dV"};
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_LT(error(s, part(s, got.dqkv, i), part(s, want.dqkv, i)), GetParam().bar) << names[i];
    }
    for (std::size_t i = 0; i < want.logsumexp.size(); ++i) {
      ASSERT_NEAR(got.logsumexp[i], want.logsumexp[i], GetParam().bar_logsumexp) << i;
    }
  }

  static bool uses_hopper(FlashPass pass) {
    const Arithmetic& a = GetParam();
    const bool half = std::string(a.precision) != "fp32";
    const bool near = a.fp32 == Fp32Attention::near && pass == FlashPass::forward;
    return compute_capability() == 90 && a.kernels == FlashKernels::newest && (half || near);
  }
  // Where tiles are few, both passes.
  static bool divides() { return uses_hopper(FlashPass::backward); }

  [[nodiscard]] FlashShape shape(std::int64_t batch, std::int64_t context, std::int64_t heads,
                                 std::int64_t head_dim, bool causal) const {
    return {.batch = batch,
            .context = context,
            .heads = heads,
            .head_dim = head_dim,
            .dtype = precision_named(GetParam().precision).compute,
            .fp32 = GetParam().fp32,
            .causal = causal,
            .kernels = GetParam().kernels};
  }

  std::unique_ptr<Device> gpu;
  CpuDevice cpu{std::size_t{1} << 32U, 4};
  std::unique_ptr<Ops> gpu_ops;
  std::unique_ptr<Ops> cpu_ops;
  std::uint64_t streams = 0;
};

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

// Blocks that compute several tiles, and more blocks than run at once.
TEST_P(FlashOnGpu, more_tiles_than_multiprocessors) {
  for (const std::int64_t head_dim : {16, 64, 80, 128}) {
    for (const bool causal : {false, true}) {
      FlashShape s = shape(1, 264, 132, head_dim, causal);
      const FlashPlan plan = flash_plan(s);
      if (divides()) {
        EXPECT_EQ(plan.forward.queries, head_dim <= 64 ? 192 : 128);
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

// One sequence's tiles are divided over the multiprocessors.
TEST_P(FlashOnGpu, one_head) {
  for (const std::int64_t head_dim : {16, 32, 64, 80, 128}) {
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

// Tiles that do not fill the multiprocessors once more, whole and in parts.
TEST_P(FlashOnGpu, tiles_that_are_left) {
  for (const std::int64_t head_dim : {16, 64}) {
    std::int64_t most_parts = 0;
    for (const std::int64_t heads : {24, 25, 50}) {
      const FlashShape s = shape(1, 1000, heads, head_dim, false);
      most_parts = std::max(most_parts, flash_plan(s).forward.parts);
      check(s);
    }
    if (divides()) {
      EXPECT_GT(most_parts, 1) << head_dim;
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

// Tiles of four warpgroups, two rounds of them.
TEST_P(FlashOnGpu, four_warpgroups) {
  for (const std::int64_t head_dim : {16, 32, 64}) {
    for (const bool causal : {false, true}) {
      const FlashShape s = shape(1, 500, 120, head_dim, causal);
      if (divides() && multiprocessors() == 132) {
        EXPECT_EQ(flash_plan(s).forward.queries, 256) << head_dim;
      }
      check(s);
    }
  }
}

// Blocks that share keys: three rounds, the last not full; a pair of which one is beyond the
// rows.
TEST_P(FlashOnGpu, pairs_of_blocks) {
  if (!divides()) GTEST_SKIP() << "these kernels have none";
  for (const auto& [context, heads] : {std::pair{700, 50}, {1056, 13}}) {
    const FlashShape s = shape(1, context, heads, 128, false);
    if (2 * sm90_forward_clusters(1) == multiprocessors()) {
      EXPECT_TRUE(ForwardPlan(s).paired) << context;
    }
    check(s);
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
  if (!divides()) {
    EXPECT_EQ(plan.forward.parts, 1);
    EXPECT_EQ(plan.backward.parts, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, FlashOnGpu, ::testing::ValuesIn(arithmetics),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace paceline
