// The matrix products of the linear layers: forward, input gradient (dx), weight gradient (dw).

#include <array>
#include <string>

#include "bench/kernels/suite.h"

namespace paceline {

namespace {

struct Layer {
  std::string name;
  std::int64_t in;
  std::int64_t out;
  Dtype result;  // of the forward product
};

}  // namespace

void add_matmuls(Suite& suite, const Dimensions& m) {
  using enum Use;
  const Precision& p = suite.precision();
  const std::array<Layer, 5> layers = {{{"qkv", m.D, 3 * m.D, p.compute},
                                        {"output", m.D, m.D, p.compute},
                                        {"w13", m.D, 2 * m.F, p.compute},
                                        {"w2", m.F, m.D, p.compute},
                                        {"head", m.D, m.V, p.logits}}};
  for (const auto& [name, I, O, result] : layers) {
    const double flops = 2.0 * static_cast<double>(m.R) * static_cast<double>(I * O);
    const Operand x{in, p.compute, {m.R, I}};
    const Operand dy{in, p.compute, {m.R, O}};
    const Operand w{in, p.compute, {O, I}};

    suite.add(m.size, {.name = "matmul_" + name,
                       .operands = {{out, result, {m.R, O}}, x, w},
                       .flops = flops,
                       .run = [](Ops& ops, Tensors t) {
                         ops.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]).transpose());
                       }});
    suite.add(m.size, {.name = "matmul_" + name + "_dx",
                       .operands = {{out, p.compute, {m.R, I}}, dy, w},
                       .flops = flops,
                       .run = [](Ops& ops, Tensors t) {
                         ops.matmul(Matrix(t[0]), Matrix(t[1]), Matrix(t[2]));
                       }});
    suite.add(m.size, {.name = "matmul_" + name + "_dw",
                       .operands = {{out, p.gradients, {O, I}}, dy, x},
                       .flops = flops,
                       .run = [](Ops& ops, Tensors t) {
                         ops.matmul(Matrix(t[0]), Matrix(t[1]).transpose(), Matrix(t[2]));
                       }});
  }
}

}  // namespace paceline
