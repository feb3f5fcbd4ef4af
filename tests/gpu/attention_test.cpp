// What attention is made of on the GPU, against the CPU oracle.

#include "tests/gpu/oracle.h"

namespace paceline {
namespace {

using AttentionOracle = Oracle;

TEST_P(AttentionOracle, RopeMaskAndSoftmax) {
  for (const std::int64_t t : {1, 3, 17, 127, 129, 512}) {
    check("causal mask", {inout(low, {3, t, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.causal_mask(x[0]); });
    check("mask and softmax", {inout(low, {3, t, t})},
          [](Ops& o, const StepState&, const Tensors& x) {
            o.causal_mask(x[0]);
            o.softmax(x[0], x[0]);
          });
    check("softmax", {out(low, {5, t}), in(low, {5, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax(x[0], x[1]); });
    check("softmax backward", {out(low, {5, t}), in(low, {5, t}), in(low, {5, t})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax_backward(x[0], x[1], x[2]); });
    for (const std::int64_t d : {2, 16, 80}) {
      for (const bool inverse : {false, true}) {
        check(
            "rope", {inout(low, {2, t, 3, 3, d}), in(full, {t, d / 2, 2})},
            [inverse](Ops& o, const StepState&, const Tensors& x) { o.rope(x[0], x[1], inverse); });
      }
    }
  }
  for (const std::int64_t n : {8191, 20001, 70000}) {
    check("long softmax", {out(low, {3, n}), in(low, {3, n})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax(x[0], x[1]); });
    check("long softmax backward", {out(low, {3, n}), in(low, {3, n}), in(low, {3, n})},
          [](Ops& o, const StepState&, const Tensors& x) { o.softmax_backward(x[0], x[1], x[2]); });
  }
}

// Rows of a warp's part, of a warp, of a block, and longer ones; packs that the diagonal cuts.
TEST_P(AttentionOracle, ScaleMaskAndSoftmaxInOne) {
  for (const bool causal : {false, true}) {
    const ScoreOptions scores{.scale = 0.3, .causal = causal};
    for (const std::int64_t t : {1, 3, 17, 64, 127, 128, 129, 512, 1000}) {
      check("masked softmax", {out(low, {3, t, t}), in(low, {3, t, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax(x[0], x[1], scores);
            });
      check("masked softmax in place", {inout(low, {3, t, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax(x[0], x[0], scores);
            });
      check("masked softmax backward",
            {out(low, {3, t, t}), in(low, {3, t, t}), in(low, {3, t, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax_backward(x[0], x[1], x[2], scores);
            });
      check("masked softmax backward in place", {inout(low, {3, t, t}), in(low, {3, t, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax_backward(x[0], x[0], x[1], scores);
            });
    }
  }
}

// A matrix's first rows are enough where a block reads each twice.
TEST_P(AttentionOracle, LongRowsOfScaleMaskAndSoftmax) {
  for (const bool causal : {false, true}) {
    const ScoreOptions scores{.scale = 0.3, .causal = causal};
    for (const std::int64_t t : {8193, 16385, 20000}) {
      check("long masked softmax", {out(low, {9, t}), in(low, {9, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax(x[0], x[1], scores);
            });
      check("long masked softmax backward", {out(low, {9, t}), in(low, {9, t}), in(low, {9, t})},
            [=](Ops& o, const StepState&, const Tensors& x) {
              o.masked_softmax_backward(x[0], x[1], x[2], scores);
            });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Precisions, AttentionOracle,
                         ::testing::Values("fp32", "tf32", "bf16", "fp16"));

}  // namespace
}  // namespace paceline
