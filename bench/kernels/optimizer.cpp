// The optimizer on the largest entry of the parameter store (w1 | w3).

#include "bench/kernels/suite.h"

namespace paceline {

void add_optimizer(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const Shape n{2 * m.F * m.D};
  const auto elements = static_cast<double>(n.numel());

  // m and v start at 0, as in training; v must not be negative.
  const Operand moment{.use = in_out, .dtype = p.parameters, .shape = n, .std = 0};
  std::vector<Operand> operands = {{in_out, p.parameters, n}, {in, p.gradients, n}, moment, moment};
  if (p.mixed()) operands.push_back({out, p.compute, n});
  suite.add(m.size, {.name = "adamw",
                     .operands = operands,
                     .flops = 15 * elements,
                     .run = [&state = suite.state()](Ops& ops, Tensors t) {
                       const AdamWRange range{.parameters = t[0],
                                              .gradients = t[1],
                                              .m = t[2],
                                              .v = t[3],
                                              .copy = t.size() > 4 ? t[4] : Tensor{}};
                       ops.adamw(range, state, AdamWConfig{});
                     }});
  suite.add(m.size, {.name = "sgd",
                     .operands = {{in_out, p.parameters, n}, {in, p.gradients, n}},
                     .flops = 2 * elements,
                     .run = [](Ops& ops, Tensors t) { ops.sgd(t[0], t[1], 1e-3); }});
  suite.add(m.size, {.name = "check_finite",
                     .operands = {{in, p.gradients, n}},
                     .run = [&state = suite.state()](Ops& ops, Tensors t) {
                       ops.check_finite(state, t[0]);
                     }});
}

}  // namespace paceline
