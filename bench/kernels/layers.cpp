// The other operations of a step: embedding, norm, SwiGLU, residual additions, casts, loss.

#include "bench/kernels/suite.h"

namespace paceline {

namespace {

constexpr double norm_eps = 1e-5;

Operand token_ids(const Dimensions& m) {
  return {
      .use = Use::in, .dtype = Dtype::i32, .shape = {m.R}, .below = static_cast<std::int32_t>(m.V)};
}

void add_embedding(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  // A row that occurs twice is read twice, because no cache holds the table.
  const double asked = static_cast<double>(m.R) / static_cast<double>(m.V);
  suite.add(m.size, {.name = "embedding",
                     .operands = {{out, p.residual, {m.R, m.D}},
                                  token_ids(m),
                                  {in, p.parameters, {m.V, m.D}, asked}},
                     .run = [](Ops& ops, Tensors t) { ops.embedding(t[0], t[1], t[2]); }});
  suite.add(
      m.size,
      {.name = "embedding_backward",
       .operands = {{out, p.gradients, {m.V, m.D}}, {in, p.residual, {m.R, m.D}}, token_ids(m)},
       .flops = static_cast<double>(m.R * m.D),
       .run = [](Ops& ops, Tensors t) { ops.embedding_backward(t[0], t[1], t[2], false); }});
}

void add_rms_norm(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const Shape rows{m.R, m.D};
  const auto elements = static_cast<double>(m.R * m.D);
  suite.add(m.size,
            {.name = "rms_norm",
             .operands = {{out, p.compute, rows},
                          {out, p.statistics, {m.R}},
                          {in, p.residual, rows},
                          {in, p.parameters, {m.D}}},
             .flops = 4 * elements,
             .run = [](Ops& ops, Tensors t) { ops.rms_norm(t[0], t[1], t[2], t[3], norm_eps); }});
  suite.add(m.size, {.name = "rms_norm_backward",
                     .operands = {{out, p.residual, rows},
                                  {in, p.residual, rows},
                                  {out, p.gradients, {m.D}},
                                  {in, p.compute, rows},
                                  {in, p.residual, rows},
                                  {in, p.parameters, {m.D}},
                                  {in, p.statistics, {m.R}}},
                     .flops = 10 * elements,
                     .run = [](Ops& ops, Tensors t) {
                       ops.rms_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], false);
                     }});
}

void add_elementwise(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const Shape rows{m.R, m.D};
  const Shape wide{m.R, m.F};
  const Shape gate_up{m.R, 2 * m.F};
  const auto wide_elements = static_cast<double>(wide.numel());

  suite.add(m.size, {.name = "swiglu",
                     .operands = {{out, p.compute, wide}, {in, p.compute, gate_up}},
                     .flops = 4 * wide_elements,
                     .run = [](Ops& ops, Tensors t) { ops.swiglu(t[0], t[1]); }});
  suite.add(
      m.size,
      {.name = "swiglu_backward",
       .operands = {{out, p.compute, gate_up}, {in, p.compute, wide}, {in, p.compute, gate_up}},
       .flops = 11 * wide_elements,
       .run = [](Ops& ops, Tensors t) { ops.swiglu_backward(t[0], t[1], t[2]); }});
  suite.add(m.size,
            {.name = "add",
             .operands = {{out, p.residual, rows}, {in, p.residual, rows}, {in, p.compute, rows}},
             .flops = static_cast<double>(rows.numel()),
             .run = [](Ops& ops, Tensors t) { ops.add(t[0], t[1], t[2]); }});
  const auto cast = [](Ops& ops, Tensors t) { ops.cast(t[0], t[1]); };
  suite.add(m.size, {.name = "cast_f32_bf16",
                     .operands = {{out, Dtype::bf16, rows}, {in, Dtype::f32, rows}},
                     .run = cast});
  suite.add(m.size, {.name = "cast_bf16_f32",
                     .operands = {{out, Dtype::f32, rows}, {in, Dtype::bf16, rows}},
                     .run = cast});
  suite.add(m.size, {.name = "fill",
                     .operands = {{out, p.residual, rows}},
                     .run = [](Ops& ops, Tensors t) { ops.fill(t[0], 1); }});
}

void add_loss(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const Shape logits{m.R, m.V};
  const auto elements = static_cast<double>(logits.numel());
  suite.add(m.size,
            {.name = "cross_entropy",
             .operands = {{out, p.loss, {1}},
                          {out, p.statistics, {m.R}},
                          {in, p.logits, logits},
                          token_ids(m)},
             .flops = 3 * elements,
             .run = [](Ops& ops, Tensors t) { ops.cross_entropy(t[0], t[1], t[2], t[3]); }});
  suite.add(m.size,
            {.name = "cross_entropy_backward",
             .operands = {{in_out, p.logits, logits}, {in, p.statistics, {m.R}}, token_ids(m)},
             .flops = 3 * elements,
             .run = [&state = suite.state()](Ops& ops, Tensors t) {
               ops.cross_entropy_backward(t[0], t[0], t[1], t[2], state);
             }});
}

void add_weighted_sum(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Dtype c = suite.precision().compute;
  const Shape rows{m.R, m.D};
  const auto elements = static_cast<double>(rows.numel());
  suite.add(m.size, {.name = "weighted_sum",
                     .operands = {{out, c, {m.R}}, {in, c, rows}, {in, c, {m.D}}},
                     .flops = 2 * elements,
                     .run = [](Ops& ops, Tensors t) { ops.weighted_sum(t[0], t[1], t[2]); }});
  suite.add(
      m.size,
      {.name = "weighted_sum_backward",
       .operands = {{out, c, rows}, {out, c, {m.D}}, {in, c, {m.R}}, {in, c, rows}, {in, c, {m.D}}},
       .flops = 3 * elements,
       .run = [](Ops& ops, Tensors t) {
         ops.weighted_sum_backward(t[0], t[1], t[2], t[3], t[4]);
       }});
}

}  // namespace

void add_layers(Suite& suite, const Dimensions& m) {
  add_embedding(suite, m);
  add_rms_norm(suite, m);
  add_elementwise(suite, m);
  add_loss(suite, m);
  add_weighted_sum(suite, m);
}

}  // namespace paceline
