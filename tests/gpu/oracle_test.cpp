// All primitives of the GPU's Ops except attention, against the CPU oracle, at odd sizes.

#include "core/error.h"
#include "tests/gpu/gpu_oracle.h"
#include "tests/oracle/op_cases.h"

namespace paceline {
namespace {

using OpOracle = GpuOracle;

TEST_P(OpOracle, Elementwise) {
  for (const std::int64_t n : {1, 3, 127, 129, 4096, 100003}) {
    check_fill(*oracle, n);
    check_elementwise(*oracle, n);
  }
}

TEST_P(OpOracle, SwigluAndWeightedSum) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check_swiglu(*oracle, r, n);
      check_weighted_sum(*oracle, r, n);
    }
  }
}

TEST_P(OpOracle, Norms) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check_rms_norm(*oracle, r, n);
    }
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
  for (const std::int64_t n : {1, 3, 129, 100003}) check_adamw(*oracle, n);
}

TEST_P(OpOracle, AdamWOfExchangedGradients) {
  if (oracle->precision().compute == Dtype::f16) {
    GTEST_SKIP() << "gradients are exchanged as bfloat16";
  }
  for (const std::int64_t n : {1, 3, 129, 100003}) check_adamw_of_exchanged(*oracle, n);
}

INSTANTIATE_TEST_SUITE_P(Precisions, OpOracle, ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
