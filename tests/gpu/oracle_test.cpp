// All primitives of the GPU's Ops against the CPU oracle, in the precision of the test's parameter:
// at odd sizes, and with more blocks than are resident at once.

#include <array>
#include <limits>
#include <memory>
#include <optional>

#include "core/error.h"
#include "cuda/cuda_backend.h"
#include "tests/oracle/attention_cases.h"

namespace paceline {
namespace {

class OpOracle : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::array<std::int64_t, 4> rows = {1, 3, 127, 129};
  static constexpr std::array<std::int64_t, 4> cols = {1, 5, 131, 768};

  void SetUp() override {
    if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
    gpu = make_cuda_device(0, std::nullopt, 1);
    oracle = std::make_unique<Oracle>(*gpu, precision_named(GetParam()));
  }
  void check_rows(std::int64_t r, std::int64_t n) const {
    check_swiglu(*oracle, r, n);
    check_weighted_sum(*oracle, r, n);
    check_rms_norm(*oracle, r, n);
  }
  void check_adamws(std::int64_t n) const {
    check_adamw(*oracle, n);
    // Gradients are exchanged as bfloat16, not as float16.
    if (oracle->precision().compute != Dtype::f16) check_adamw_of_exchanged(*oracle, n);
  }

  std::unique_ptr<Device> gpu;
  std::unique_ptr<Oracle> oracle;
};

TEST_P(OpOracle, Elementwise) {
  for (const std::int64_t n : {1, 3, 127, 129, 4096, 100003}) {
    check_fill(*oracle, n);
    check_elementwise(*oracle, n);
  }
}

TEST_P(OpOracle, Rows) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) check_rows(r, n);
  }
}

TEST_P(OpOracle, EmbeddingAndLoss) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t d : cols) check_embedding(*oracle, r, d, 50);
    for (const std::int64_t v : {2, 131, 10000, 50257}) check_cross_entropy(*oracle, r, v);
  }
  // The backward pass reads four tokens at a time.
  for (const std::int64_t r : {4, 2048, 4096, 4100, 8196}) check_embedding(*oracle, r, 36, 50);
}

TEST_P(OpOracle, Matmul) {
  for (const std::int64_t m : {1, 3, 129}) {
    for (const std::int64_t k : {1, 5, 131, 256}) {
      for (const std::int64_t n : {1, 64, 127}) check_matmul(*oracle, m, k, n);
    }
  }
  for (const std::int64_t d : {2, 16, 64, 80}) check_head_products(*oracle, d);
}

TEST_P(OpOracle, RefusesAnOperandWithAScale) {
  Ops& ops = *oracle->tested().ops;
  const Array x = gpu->allocate({8, 8}, oracle->precision().compute, MemoryKind::workspace);
  Matrix scaled(x);
  scaled.scale = gpu->allocate({1}, Dtype::f32, MemoryKind::workspace);
  EXPECT_THROW(ops.matmul(Matrix(x), scaled, Matrix(x)), InternalError);
}

// A weight gradient in a half type is the float32 sum, which is exact for these values, rounded
// once, even if k is long enough for cuBLASLt to use split-K.
TEST_P(OpOracle, ProductsAreRoundedOnce) {
  const Dtype compute = oracle->precision().compute;
  if (compute == Dtype::f32) GTEST_SKIP() << "nothing is rounded";
  Ops& ops = *oracle->tested().ops;
  constexpr std::int64_t m = 64;
  constexpr std::int64_t n = 128;
  std::uint64_t stream = 0;
  for (const std::int64_t k : {64, 2048, 65536}) {
    const auto whole_numbers = [&](std::int64_t width) {
      std::vector<std::int32_t> drawn(static_cast<std::size_t>(k * width));
      Random(12, stream++).fill_integers(drawn, 9);
      std::vector<double> values(drawn.begin(), drawn.end());
      for (double& v : values) v -= 4;
      return write(*gpu, ops, {k, width}, compute, values);
    };
    const Array dy = whole_numbers(m);
    const Array x = whole_numbers(n);
    const auto product = [&](Dtype dtype) {
      Array dw = gpu->allocate({m, n}, dtype, MemoryKind::workspace);
      ops.matmul(Matrix(dw), Matrix(dy).transpose(), Matrix(x));
      return dw;
    };
    const Array rounded = gpu->allocate({m, n}, compute, MemoryKind::workspace);
    ops.cast(rounded, product(Dtype::f32));
    EXPECT_EQ(read(*gpu, ops, product(compute)), read(*gpu, ops, rounded)) << k;
  }
}

TEST_P(OpOracle, AdamW) {
  for (const std::int64_t n : {1, 3, 129, 100003}) check_adamws(n);
}

TEST_P(OpOracle, RopeMaskAndSoftmax) {
  for (const std::int64_t t : {1, 3, 17, 127, 129, 512}) {
    check_causal_mask(*oracle, 3, t);
    check_softmax(*oracle, 5, t);
    for (const std::int64_t d : {2, 16, 80}) check_rope(*oracle, 2, t, 3, d);
  }
  for (const std::int64_t n : {8191, 20001, 70000}) check_softmax(*oracle, 3, n);
}

// Rows for part of a warp, for a warp, for a block, and longer ones; packs that the diagonal
// crosses. The first rows of a matrix suffice where a block reads each row twice.
TEST_P(OpOracle, ScaleMaskAndSoftmaxInOne) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t t : {1, 3, 17, 64, 127, 128, 129, 512, 1000}) {
      check_masked_softmax(*oracle, {3, t, t}, causal);
    }
    for (const std::int64_t t : {8193, 16385, 20000}) {
      check_masked_softmax(*oracle, {9, t}, causal);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, OpOracle, ::testing::Values("fp32", "tf32", "bf16", "fp16"));

// Grids of more blocks than are resident at once, for every family of kernels: small shapes cannot
// reveal an index that is wrong after the first wave. A multiprocessor holds 2048 threads in up to
// 32 blocks; an H200 has 132 of them. Persistent kernels run several iterations of their loops
// here. flash_test.cpp does the same for flash attention.
class Waves : public OpOracle {
 protected:
  static constexpr std::int64_t threads = 132 * 2048;  // in a wave
  // Two packs of 8 elements per thread, and an odd remainder.
  static constexpr std::int64_t elements = threads * 16 + 174'631;

  struct Extent {
    std::int64_t rows, cols;
  };
  // A block has 16 rows of the first or 32 threads; one row of the second with 64 threads or more;
  // one row of the third with 512 threads or more, where accesses are one element wide.
  static constexpr std::array<Extent, 3> matrices = {{{35'001, 40}, {4'301, 1'040}, {601, 3'001}}};
};

TEST_P(Waves, Elementwise) {
  check_fill(*oracle, 2 * elements);  // four packs per thread
  check_elementwise(*oracle, elements);
}

TEST_P(Waves, Rows) {
  for (const auto& [r, n] : matrices) check_rows(r, n);
  // Sums of partial sums: a block of 1024 threads for 32 columns.
  check_weighted_sum(*oracle, 37, 9'001);
}

TEST_P(Waves, EmbeddingAndLoss) {
  check_embedding(*oracle, 35'001, 40, 50);
  check_embedding(*oracle, 4'301, 1'040, 50);
  check_embedding(*oracle, 5'003, 40, 4'301);  // backward: one block per word
  check_cross_entropy(*oracle, 35'001, 40);
  check_cross_entropy(*oracle, 601, 10'007);
}

TEST_P(Waves, Attention) {
  for (const auto& [r, n] : matrices) check_softmax(*oracle, r, n);
  check_causal_mask(*oracle, 875, 40);
  for (const bool causal : {false, true}) {
    for (const Shape& shape : {Shape{875, 40, 40}, Shape{5, 1'040, 1'040}, Shape{601, 3'001}}) {
      check_masked_softmax(*oracle, shape, causal);
    }
  }
  check_rope(*oracle, 2, 17'501, 1, 16);
}

TEST_P(Waves, Matmul) { check_matmul(*oracle, 2'111, 96, 2'111); }

TEST_P(Waves, AdamW) { check_adamws(elements / 2); }

TEST_P(Waves, CheckFinite) {
  Ops& ops = *oracle->tested().ops;
  const StepState& state = oracle->tested().state;
  constexpr std::int64_t n = 2 * elements;
  const Array x = gpu->allocate({n}, oracle->precision().compute, MemoryKind::workspace);
  ops.fill(x, 1);
  const auto found = [&] {
    ops.check_finite(state, x);
    const double result = state.get(*gpu, StepScalar::found_inf);
    ops.end_optimizer_step(state);
    return result;
  };
  EXPECT_EQ(found(), 0);
  for (const std::int64_t index : {std::int64_t{0}, elements, n - 1}) {
    const Tensor one = x.tensor().slice(index, {1});
    for (const double bad :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      ops.fill(one, bad);
      EXPECT_EQ(found(), 1) << index << " " << bad;
    }
    ops.fill(one, 1);
    EXPECT_EQ(found(), 0) << index;
  }
}

// Only products differ between tf32 and fp32, and OpOracle checks those.
INSTANTIATE_TEST_SUITE_P(Precisions, Waves, ::testing::Values("fp32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
