#pragma once
// Oracle checks of Ops except attention, by shape. Where an element is a product of
// several normal numbers, the size given for cancelling terms is that of the largest.

#include "tests/oracle/oracle.h"

namespace paceline {

using Side = Oracle::Side;
using Tensors = Oracle::Tensors;

inline constexpr Holds low = Holds::low;
inline constexpr Holds full = Holds::full;

// A column sum [cols] over `rows` rows. accumulate: it is added to the operand.
inline Operand column_sum(std::int64_t cols, bool accumulate, std::int64_t rows) {
  return {accumulate ? Role::inout : Role::output, full, {cols}, 0, sum_of(rows + 1)};
}

inline void check_fill(Oracle& o, std::int64_t n) {
  o.check("fill", {out(low, {n}, copied)},
          [](const Side& s, const Tensors& t) { s.ops->fill(t[0], 1.5); });
  o.check("fill normal", {out(low, {n}, without_cancellation)},
          [](const Side& s, const Tensors& t) {
            s.ops->fill_normal(t[0], Random(3, 1), TruncatedNormal(0.5, 1.5), 0);
          });
  o.check("fill normal from element 7 on", {out(low, {n}, without_cancellation)},
          [](const Side& s, const Tensors& t) {
            s.ops->fill_normal(t[0], Random(3, 1), TruncatedNormal(0.5, 1.5), 7);
          });
}

inline void check_elementwise(Oracle& o, std::int64_t n) {
  o.check("cast down", {out(low, {n}, copied), in(full, {n})},
          [](const Side& s, const Tensors& t) { s.ops->cast(t[0], t[1]); });
  o.check("cast up", {out(full, {n}, copied), in(low, {n})},
          [](const Side& s, const Tensors& t) { s.ops->cast(t[0], t[1]); });
  o.check("add", {out(full, {n}, copied), in(full, {n}), in(low, {n})},
          [](const Side& s, const Tensors& t) { s.ops->add(t[0], t[1], t[2]); });
  o.check("add in place", {inout(low, {n}, without_cancellation), in(low, {n})},
          [](const Side& s, const Tensors& t) { s.ops->add(t[0], t[0], t[1]); });
  o.check("scale", {inout(low, {n}, copied)},
          [](const Side& s, const Tensors& t) { s.ops->scale(t[0], 0.125); });
  o.check("sgd", {inout(full, {n}, sum_of(1, 0.1)), in(full, {n})},
          [](const Side& s, const Tensors& t) { s.ops->sgd(t[0], t[1], 0.1); });
}

inline void check_swiglu(Oracle& o, std::int64_t r, std::int64_t n) {
  o.check("swiglu", {out(low, {r, n}, without_cancellation), in(low, {r, 2 * n})},
          [](const Side& s, const Tensors& t) { s.ops->swiglu(t[0], t[1]); });
  const Computed gradient = sum_of(1, 2);
  o.check("swiglu backward", {out(low, {r, 2 * n}, gradient), in(low, {r, n}), in(low, {r, 2 * n})},
          [](const Side& s, const Tensors& t) { s.ops->swiglu_backward(t[0], t[1], t[2]); });
  o.check("swiglu backward in place", {inout(low, {r, 2 * n}, gradient), in(low, {r, n})},
          [](const Side& s, const Tensors& t) { s.ops->swiglu_backward(t[0], t[1], t[0]); });
}

inline void check_weighted_sum(Oracle& o, std::int64_t r, std::int64_t n) {
  o.check("weighted sum", {out(full, {r}, sum_of(n)), in(low, {r, n}), in(low, {n})},
          [](const Side& s, const Tensors& t) { s.ops->weighted_sum(t[0], t[1], t[2]); });
  o.check("weighted sum backward",
          {out(low, {r, n}, without_cancellation), column_sum(n, false, r), in(full, {r}),
           in(low, {r, n}), in(low, {n})},
          [](const Side& s, const Tensors& t) {
            s.ops->weighted_sum_backward(t[0], t[1], t[2], t[3], t[4]);
          });
}

inline void check_rms_norm(Oracle& o, std::int64_t r, std::int64_t n) {
  o.check("rms norm",
          {out(low, {r, n}, without_cancellation), out(full, {r}, without_cancellation),
           in(full, {r, n}), in(full, {n})},
          [](const Side& s, const Tensors& t) { s.ops->rms_norm(t[0], t[1], t[2], t[3], 1e-5); });
  const Computed gradient = sum_of(1, 4);
  for (const bool accumulate : {false, true}) {
    o.check("rms norm backward",
            {out(full, {r, n}, gradient), in(full, {r, n}), column_sum(n, accumulate, r),
             in(low, {r, n}), in(full, {r, n}), in(full, {n}), in(full, {r})},
            [accumulate](const Side& s, const Tensors& t) {
              s.ops->rms_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], accumulate);
            });
    o.check("rms norm backward in place",
            {inout(full, {r, n}, gradient), column_sum(n, accumulate, r), in(low, {r, n}),
             in(full, {r, n}), in(full, {n}), in(full, {r})},
            [accumulate](const Side& s, const Tensors& t) {
              s.ops->rms_norm_backward(t[0], t[0], t[1], t[2], t[3], t[4], t[5], accumulate);
            });
  }
}

inline void check_embedding(Oracle& o, std::int64_t r, std::int64_t d, std::int64_t vocabulary) {
  o.check("embedding", {out(full, {r, d}, copied), ids(r, vocabulary), in(full, {vocabulary, d})},
          [](const Side& s, const Tensors& t) { s.ops->embedding(t[0], t[1], t[2]); });
  for (const bool accumulate : {false, true}) {
    Operand sums = out(full, {vocabulary, d}, sum_of(r / vocabulary + 2));
    if (accumulate) sums.role = Role::inout;
    o.check("embedding backward", {sums, in(full, {r, d}), ids(r, vocabulary)},
            [accumulate](const Side& s, const Tensors& t) {
              s.ops->embedding_backward(t[0], t[1], t[2], accumulate);
            });
  }
}

inline void check_cross_entropy(Oracle& o, std::int64_t r, std::int64_t v) {
  const Computed logarithm = sum_of(1);
  o.check("cross entropy",
          {out(full, {1}, logarithm), out(full, {r}, logarithm), in(low, {r, v}), targets(r, v)},
          [](const Side& s, const Tensors& t) { s.ops->cross_entropy(t[0], t[1], t[2], t[3]); });
  o.check("cross entropy backward",
          {out(low, {r, v}, sum_of(1, 8 / static_cast<double>(with_target(r)))),
           out(full, {1}, logarithm), out(full, {r}, logarithm), in(low, {r, v}), targets(r, v)},
          [](const Side& s, const Tensors& t) {
            s.ops->cross_entropy(t[1], t[2], t[3], t[4]);
            s.ops->cross_entropy_backward(t[0], t[3], t[2], t[4], s.state);
          });
}

inline void check_matmul(Oracle& o, std::int64_t m, std::int64_t k, std::int64_t n) {
  const Computed product = gemm_over(k);
  o.check("x w^T", {out(low, {m, n}, product), in(low, {m, k}), in(low, {n, k})},
          [](const Side& s, const Tensors& t) {
            s.ops->matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]).transpose());
          });
  o.check("dy w", {out(low, {m, n}, product), in(low, {m, k}), in(low, {k, n})},
          [](const Side& s, const Tensors& t) {
            s.ops->matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]));
          });
  o.check("dy^T x", {out(low, {m, n}, product), in(low, {k, m}), in(low, {k, n})},
          [](const Side& s, const Tensors& t) {
            s.ops->matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]));
          });
  o.check("dy^T x, added", {inout(full, {m, n}, product), in(low, {k, m}), in(low, {k, n})},
          [](const Side& s, const Tensors& t) {
            s.ops->matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]), 0.5, 1);
          });
}

// The matrix products of attention, forward and backward. Heads of packed q, k, v have two batch
// dimensions with strides.
inline void check_head_products(Oracle& o, std::int64_t d) {
  constexpr std::int64_t B = 2;
  constexpr std::int64_t T = 33;
  constexpr std::int64_t H = 3;
  const auto square = [](const Tensor& x) {
    Matrix m(x);
    m.rows = T;
    m.batch = {B, H};
    m.batch_stride = {H * T * T, T * T};
    return m;
  };
  const Operand p = in(low, {B, H, T, T});
  const Operand qkv = in(low, {B, T, 3, H, d});
  const Operand heads = in(low, {B, T, H, d});
  o.check("scores", {out(low, {B, H, T, T}, gemm_over(d)), qkv},
          [=](const Side& s, const Tensors& t) {
            const QkvHeads x(t[1]);
            s.ops->matmul(square(t[0]), Matrix(x.q), Matrix(x.k).transpose());
          });
  o.check("p v", {out(low, {B, T, H, d}, gemm_over(T)), p, qkv},
          [=](const Side& s, const Tensors& t) {
            s.ops->matmul(Matrix(Heads(t[0])), square(t[1]), Matrix(QkvHeads(t[2]).v));
          });
  o.check("d_o v^T", {out(low, {B, H, T, T}, gemm_over(d)), heads, qkv},
          [=](const Side& s, const Tensors& t) {
            s.ops->matmul(square(t[0]), Matrix(Heads(t[1])), Matrix(QkvHeads(t[2]).v).transpose());
          });
  o.check("dq, dk, dv", {out(low, {B, T, 3, H, d}, gemm_over(T)), p, qkv, heads},
          [=](const Side& s, const Tensors& t) {
            const QkvHeads to(t[0]);
            const QkvHeads x(t[2]);
            s.ops->matmul(Matrix(to.q), square(t[1]), Matrix(x.k), 0.5);
            s.ops->matmul(Matrix(to.k), square(t[1]).transpose(), Matrix(x.q), 0.5);
            s.ops->matmul(Matrix(to.v), square(t[1]).transpose(), Matrix(Heads(t[3])));
          });
}

inline void check_adamw(Oracle& o, std::int64_t n) {
  const Computed moment = sum_of(2);
  const Computed weight = sum_of(3, 0.1);
  o.check("adamw",
          {inout(full, {n}, weight), in(full, {n}), inout(full, {n}, moment),
           out(full, {n}, without_cancellation), out(low, {n}, weight)},
          [](const Side& s, const Tensors& t) {
            s.ops->fill(t[3], 0.25);  // v is positive
            const bool copies = t[4].dtype != t[0].dtype;
            const AdamWConfig config;
            for (int step = 0; step < 3; ++step) {
              s.ops->begin_optimizer_step(s.state, config);
              s.ops->adamw({t[0], t[1], t[2], t[3], copies ? t[4] : Tensor{}}, s.state, config);
              s.ops->end_optimizer_step(s.state);
            }
            if (!copies) s.ops->cast(t[4], t[0]);
          });
}

// AdamW with gradients in the compute dtype, as after an exchange in it.
inline void check_adamw_of_exchanged(Oracle& o, std::int64_t n) {
  const Computed moment = sum_of(2);
  o.check("adamw of exchanged gradients",
          {inout(full, {n}, sum_of(3, 0.1)), in(low, {n}), inout(full, {n}, moment),
           out(full, {n}, without_cancellation)},
          [](const Side& s, const Tensors& t) {
            s.ops->fill(t[3], 0.25);  // v is positive
            const AdamWConfig other{.beta1 = 0.8, .beta2 = 0.95};
            s.ops->begin_optimizer_step(s.state, other);
            s.ops->adamw({t[0], t[1], t[2], t[3], {}}, s.state, other);
            s.ops->end_optimizer_step(s.state);
          });
}

}  // namespace paceline
