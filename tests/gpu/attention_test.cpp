// The operations of naive and fused attention on the GPU, against the CPU oracle.

#include "tests/gpu/gpu_oracle.h"
#include "tests/oracle/attention_cases.h"

namespace paceline {
namespace {

using AttentionOracle = GpuOracle;

TEST_P(AttentionOracle, RopeMaskAndSoftmax) {
  for (const std::int64_t t : {1, 3, 17, 127, 129, 512}) {
    check_causal_mask(*oracle, 3, t);
    check_softmax(*oracle, 5, t);
    for (const std::int64_t d : {2, 16, 80}) check_rope(*oracle, 2, t, 3, d);
  }
  for (const std::int64_t n : {8191, 20001, 70000}) check_softmax(*oracle, 3, n);
}

// Rows for part of a warp, for a warp, for a block, and longer ones; packs that the diagonal
// crosses.
TEST_P(AttentionOracle, ScaleMaskAndSoftmaxInOne) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t t : {1, 3, 17, 64, 127, 128, 129, 512, 1000}) {
      check_masked_softmax(*oracle, {3, t, t}, causal);
    }
  }
}

// The first rows of a matrix suffice where a block reads each row twice.
TEST_P(AttentionOracle, LongRowsOfScaleMaskAndSoftmax) {
  for (const bool causal : {false, true}) {
    for (const std::int64_t t : {8193, 16385, 20000}) {
      check_masked_softmax(*oracle, {9, t}, causal);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, AttentionOracle,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
