// The operations of naive and fused attention: rotary positions, matrix products per head, scale,
// mask, softmax, and scale + mask + softmax fused.

#include <cmath>

#include "bench/kernels/suite.h"

namespace paceline {

namespace {

// y [B, T, H d]
Matrix merged(const Tensor& y, const Dimensions& m) {
  return Matrix(Heads(y.reshape({m.B, m.T, m.H, m.d})));
}

// The [T, T] matrices of scores [B, H, T, T].
Matrix square(const Tensor& scores, const Dimensions& m) {
  Matrix a;
  a.tensor = scores;
  a.rows = a.cols = a.row_stride = m.T;
  a.batch = {m.B, m.H};
  a.batch_stride = {m.H * m.T * m.T, m.T * m.T};
  return a;
}

// Forward S = Q K^T, O = P V; backward dV = P^T dO, dP = dO V^T, dQ = dS K, dK = dS^T Q.
void add_products(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Dtype c = suite.precision().compute;
  const double flops = 2.0 * static_cast<double>(m.B * m.T * m.T) * static_cast<double>(m.D);
  const Shape qkv{m.B, m.T, 3, m.H, m.d};
  const Shape y{m.B, m.T, m.D};
  const Shape scores{m.B, m.H, m.T, m.T};
  constexpr double one_part = 1.0 / 3;
  constexpr double two_parts = 2.0 / 3;

  suite.add(m.size, {.name = "attention_scores",
                     .operands = {{out, c, scores}, {in, c, qkv, two_parts}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(square(t[0], m), Matrix(QkvHeads(t[1]).q),
                                  Matrix(QkvHeads(t[1]).k).transpose());
                     }});
  suite.add(m.size, {.name = "attention_values",
                     .operands = {{out, c, y}, {in, c, scores}, {in, c, qkv, one_part}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(merged(t[0], m), square(t[1], m), Matrix(QkvHeads(t[2]).v));
                     }});
  suite.add(m.size, {.name = "attention_dv",
                     .operands = {{out, c, qkv, one_part}, {in, c, scores}, {in, c, y}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(Matrix(QkvHeads(t[0]).v), square(t[1], m).transpose(),
                                  merged(t[2], m));
                     }});
  suite.add(m.size, {.name = "attention_dp",
                     .operands = {{out, c, scores}, {in, c, y}, {in, c, qkv, one_part}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(square(t[0], m), merged(t[1], m),
                                  Matrix(QkvHeads(t[2]).v).transpose());
                     }});
  suite.add(m.size, {.name = "attention_dq",
                     .operands = {{out, c, qkv, one_part}, {in, c, scores}, {in, c, qkv, one_part}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(Matrix(QkvHeads(t[0]).q), square(t[1], m),
                                  Matrix(QkvHeads(t[2]).k));
                     }});
  suite.add(m.size, {.name = "attention_dk",
                     .operands = {{out, c, qkv, one_part}, {in, c, scores}, {in, c, qkv, one_part}},
                     .flops = flops,
                     .run = [m](Ops& ops, Tensors t) {
                       ops.matmul(Matrix(QkvHeads(t[0]).k), square(t[1], m).transpose(),
                                  Matrix(QkvHeads(t[2]).q));
                     }});
}

}  // namespace

void add_attention(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const Dtype c = p.compute;
  const Shape scores{m.B * m.H, m.T, m.T};
  const auto elements = static_cast<double>(scores.numel());

  constexpr double q_and_k = 2.0 / 3;
  suite.add(m.size, {.name = "rope",
                     .operands = {{in_out, c, {m.B, m.T, 3, m.H, m.d}, q_and_k},
                                  {in, p.statistics, {m.T, m.d / 2, 2}}},
                     .flops = 6.0 * static_cast<double>(m.R * m.D),
                     .run = [](Ops& ops, Tensors t) { ops.rope(t[0], t[1], false); }});

  add_products(suite, m);

  // Scales by -1: numbers that shrink in every run would become subnormal, which is slow.
  suite.add(m.size, {.name = "scale",
                     .operands = {{in_out, c, scores}},
                     .flops = elements,
                     .run = [](Ops& ops, Tensors t) { ops.scale(t[0], -1); }});
  const double above_diagonal = static_cast<double>(m.T - 1) / static_cast<double>(2 * m.T);
  suite.add(m.size, {.name = "causal_mask",
                     .operands = {{out, c, scores, above_diagonal}},
                     .run = [](Ops& ops, Tensors t) { ops.causal_mask(t[0]); }});
  suite.add(m.size, {.name = "softmax",
                     .operands = {{in_out, c, scores}},
                     .flops = 4 * elements,
                     .run = [](Ops& ops, Tensors t) { ops.softmax(t[0], t[0]); }});
  suite.add(m.size, {.name = "softmax_backward",
                     .operands = {{out, c, scores}, {in, c, scores}, {in, c, scores}},
                     .flops = 4 * elements,
                     .run = [](Ops& ops, Tensors t) { ops.softmax_backward(t[0], t[1], t[2]); }});

  // The masked half is written but not read.
  const double seen = 1 - above_diagonal;
  const ScoreOptions causal{.scale = 1 / std::sqrt(static_cast<double>(m.d)), .causal = true};
  suite.add(m.size, {.name = "masked_softmax",
                     .operands = {{out, c, scores}, {in, c, scores, seen}},
                     .flops = 5 * seen * elements,
                     .run = [=](Ops& ops, Tensors t) { ops.masked_softmax(t[0], t[1], causal); }});
  suite.add(m.size, {.name = "masked_softmax_backward",
                     .operands = {{out, c, scores}, {in, c, scores, seen}, {in, c, scores, seen}},
                     .flops = 5 * seen * elements,
                     .run = [=](Ops& ops, Tensors t) {
                       ops.masked_softmax_backward(t[0], t[1], t[2], causal);
                     }});
}

}  // namespace paceline
