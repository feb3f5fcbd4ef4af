// The oracle's comparison applied to float32, bfloat16 and float16 on the CPU: at the shapes of the
// GPU tests, errors must stay well within the tolerances.

#include "tests/oracle/attention_cases.h"

namespace paceline {
namespace {

class CpuOracle : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr std::array<std::int64_t, 3> rows = {1, 3, 129};
  static constexpr std::array<std::int64_t, 4> cols = {1, 5, 131, 768};

  // The rest of the tolerance is for GPUs, which sum in other orders and have faster exponentials.
  void TearDown() override {
    EXPECT_LT(oracle.furthest(), 0.25);
    if (oracle.precision().compute == Dtype::f32) {
      EXPECT_GT(oracle.furthest(), 0) << "nothing was compared";
    }
  }

  CpuDevice device{std::size_t{1} << 32U, 2};
  Oracle oracle{device, precision_named(GetParam())};
};

TEST_P(CpuOracle, elementwise) {
  for (const std::int64_t n : {1, 3, 129, 100003}) {
    check_fill(oracle, n);
    check_elementwise(oracle, n);
    check_adamw(oracle, n);
    check_adamw_of_exchanged(oracle, n);
  }
}

TEST_P(CpuOracle, rows) {
  for (const std::int64_t r : rows) {
    for (const std::int64_t n : cols) {
      check_swiglu(oracle, r, n);
      check_weighted_sum(oracle, r, n);
      check_rms_norm(oracle, r, n);
      check_embedding(oracle, r, n, 50);
      check_softmax(oracle, r, n);
    }
    for (const std::int64_t v : {2, 131, 10000}) check_cross_entropy(oracle, r, v);
  }
  check_rms_norm(oracle, 4301, 96);
}

TEST_P(CpuOracle, products) {
  for (const std::int64_t m : {1, 129}) {
    for (const std::int64_t k : {1, 5, 256}) check_matmul(oracle, m, k, 127);
  }
  for (const std::int64_t d : {2, 80}) check_head_products(oracle, d);
}

TEST_P(CpuOracle, attention) {
  for (const std::int64_t t : {1, 17, 129}) {
    check_causal_mask(oracle, 3, t);
    for (const bool causal : {false, true}) check_masked_softmax(oracle, {3, t, t}, causal);
    check_rope(oracle, 2, t, 3, 80);
  }
  check_softmax(oracle, 3, 20001);
  check_masked_softmax(oracle, {9, 8193}, true);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CpuOracle, ::testing::Values("fp32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
