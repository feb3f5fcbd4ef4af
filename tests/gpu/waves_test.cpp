// Grids of more blocks than are resident at once, for every family of kernels: small shapes cannot
// reveal an index that is wrong after the first wave. A multiprocessor holds 2048 threads in up to
// 32 blocks; an H200 has 132 of them. Persistent kernels run several iterations of their loops
// here. flash_plan_test.cpp does the same for flash attention.

#include <limits>

#include "tests/gpu/gpu_oracle.h"
#include "tests/oracle/attention_cases.h"

namespace paceline {
namespace {

class Waves : public GpuOracle {
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
  for (const auto& [r, n] : matrices) {
    check_swiglu(*oracle, r, n);
    check_weighted_sum(*oracle, r, n);
  }
  check_weighted_sum(*oracle, 37,
                     9'001);  // sums of partial sums: a block of 1024 threads for 32 columns
}

TEST_P(Waves, Norms) {
  for (const auto& [r, n] : matrices) {
    check_rms_norm(*oracle, r, n);
  }
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

TEST_P(Waves, AdamW) {
  check_adamw(*oracle, elements / 2);
  if (oracle->precision().compute != Dtype::f16) check_adamw_of_exchanged(*oracle, elements / 2);
}

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
