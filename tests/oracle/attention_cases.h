#pragma once
// Oracle checks of the primitives of naive and fused attention, by shape.

#include "tests/oracle/op_cases.h"

namespace paceline {

// scores [N, t, t]
inline void check_causal_mask(Oracle& o, std::int64_t matrices, std::int64_t t) {
  o.check("causal mask", {inout(low, {matrices, t, t}, copied)},
          [](const Side& s, const Tensors& x) { s.ops->causal_mask(x[0]); });
  o.check("mask and softmax", {inout(low, {matrices, t, t}, without_cancellation)},
          [](const Side& s, const Tensors& x) {
            s.ops->causal_mask(x[0]);
            s.ops->softmax(x[0], x[0]);
          });
}

inline void check_softmax(Oracle& o, std::int64_t r, std::int64_t n) {
  o.check("softmax", {out(low, {r, n}, without_cancellation), in(low, {r, n})},
          [](const Side& s, const Tensors& x) { s.ops->softmax(x[0], x[1]); });
  o.check("softmax backward", {out(low, {r, n}, sum_of(n, 2)), in(low, {r, n}), in(low, {r, n})},
          [](const Side& s, const Tensors& x) { s.ops->softmax_backward(x[0], x[1], x[2]); });
}

// shape: [..., t, t], or [..., rows, t] for the first rows of each matrix.
inline void check_masked_softmax(Oracle& o, const Shape& shape, bool causal) {
  const ScoreOptions scores{.scale = 0.3, .causal = causal};
  const Computed gradient = sum_of(shape[-1], 1);
  o.check("masked softmax", {out(low, shape, without_cancellation), in(low, shape)},
          [=](const Side& s, const Tensors& x) { s.ops->masked_softmax(x[0], x[1], scores); });
  o.check("masked softmax in place", {inout(low, shape, without_cancellation)},
          [=](const Side& s, const Tensors& x) { s.ops->masked_softmax(x[0], x[0], scores); });
  o.check("masked softmax backward", {out(low, shape, gradient), in(low, shape), in(low, shape)},
          [=](const Side& s, const Tensors& x) {
            s.ops->masked_softmax_backward(x[0], x[1], x[2], scores);
          });
  o.check("masked softmax backward in place", {inout(low, shape, gradient), in(low, shape)},
          [=](const Side& s, const Tensors& x) {
            s.ops->masked_softmax_backward(x[0], x[0], x[1], scores);
          });
}

inline void check_rope(Oracle& o, std::int64_t batch, std::int64_t t, std::int64_t heads,
                       std::int64_t d) {
  for (const bool inverse : {false, true}) {
    o.check("rope", {inout(low, {batch, t, 3, heads, d}, sum_of(2)), in(full, {t, d / 2, 2})},
            [inverse](const Side& s, const Tensors& x) { s.ops->rope(x[0], x[1], inverse); });
  }
}

}  // namespace paceline
