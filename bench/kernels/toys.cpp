// Operations that only the course's toy models use, at one shape, in the parameters' dtype.

#include "bench/kernels/suite.h"

namespace paceline {

namespace {

constexpr std::string_view size = "toy";
constexpr std::int64_t R = 2048;
constexpr std::int64_t D = 1024;
constexpr double elements = R * D;

void add_layer_norm(Suite& suite) {
  using enum Use;
  const Dtype c = suite.precision().parameters;
  ToyOps& toys = suite.toys();
  constexpr double eps = 1e-5;
  suite.add(size, {.name = "layer_norm",
                   .operands = {{out, c, {R, D}},
                                {out, c, {R}},
                                {out, c, {R}},
                                {in, c, {R, D}},
                                {in, c, {D}},
                                {in, c, {D}}},
                   .flops = 8 * elements,
                   .run = [&toys](Ops&, Tensors t) {
                     toys.layer_norm(t[0], t[1], t[2], t[3], t[4], t[5], eps);
                   }});
  suite.add(size, {.name = "layer_norm_backward",
                   .operands = {{out, c, {R, D}},
                                {out, c, {D}},
                                {out, c, {D}},
                                {in, c, {R, D}},
                                {in, c, {R, D}},
                                {in, c, {D}},
                                {in, c, {R}},
                                {in, c, {R}}},
                   .flops = 13 * elements,
                   .run = [&toys](Ops&, Tensors t) {
                     toys.layer_norm_backward(t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7],
                                              false);
                   }});
}

void add_linear_layer(Suite& suite) {
  using enum Use;
  const Dtype c = suite.precision().parameters;
  ToyOps& toys = suite.toys();
  suite.add(size, {.name = "add_bias",
                   .operands = {{in_out, c, {R, D}}, {in, c, {D}}},
                   .flops = elements,
                   .run = [&toys](Ops&, Tensors t) { toys.add_bias(t[0], t[1]); }});
  suite.add(size, {.name = "bias_backward",
                   .operands = {{out, c, {D}}, {in, c, {R, D}}},
                   .flops = elements,
                   .run = [&toys](Ops&, Tensors t) { toys.bias_backward(t[0], t[1], false); }});
  suite.add(size, {.name = "relu",
                   .operands = {{out, c, {R, D}}, {in, c, {R, D}}},
                   .run = [&toys](Ops&, Tensors t) { toys.relu(t[0], t[1]); }});
  suite.add(size, {.name = "relu_backward",
                   .operands = {{out, c, {R, D}}, {in, c, {R, D}}, {in, c, {R, D}}},
                   .run = [&toys](Ops&, Tensors t) { toys.relu_backward(t[0], t[1], t[2]); }});
}

void add_training(Suite& suite) {
  using enum Use;
  const Dtype c = suite.precision().parameters;
  ToyOps& toys = suite.toys();
  suite.add(size, {.name = "squared_error",
                   .operands = {{out, c, {1}}, {in, c, {R, D}}, {in, c, {R, D}}},
                   .flops = 3 * elements,
                   .run = [&toys](Ops&, Tensors t) {
                     toys.squared_error(t[0], t[1], t[2], Reduction::mean);
                   }});
  suite.add(size, {.name = "squared_error_backward",
                   .operands = {{out, c, {R, D}}, {in, c, {R, D}}, {in, c, {R, D}}},
                   .flops = 2 * elements,
                   .run = [&toys](Ops&, Tensors t) {
                     toys.squared_error_backward(t[0], t[1], t[2], Reduction::mean);
                   }});
  suite.add(size, {.name = "sgd",
                   .operands = {{in_out, c, {R, D}}, {in, c, {R, D}}},
                   .flops = 2 * elements,
                   .run = [](Ops& ops, Tensors t) { ops.sgd(t[0], t[1], 1e-3); }});
}

}  // namespace

void add_toys(Suite& suite) {
  add_layer_norm(suite);
  add_linear_layer(suite);
  add_training(suite);
}

}  // namespace paceline
