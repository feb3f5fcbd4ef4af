#include "model/accounting.h"

#include <algorithm>
#include <cmath>

namespace paceline {

namespace {

double bytes_of(Dtype d) { return static_cast<double>(size_of(d)); }

struct Dims {
  explicit Dims(const StepShape& s)
      : B(static_cast<double>(s.batch)),
        T(static_cast<double>(s.model.context)),
        D(static_cast<double>(s.model.d_model)),
        F(static_cast<double>(s.model.d_ff)),
        L(static_cast<double>(s.model.layers)),
        H(static_cast<double>(s.model.heads)),
        V(static_cast<double>(s.model.vocab)),
        R(B * T) {}
  double B, T, D, F, L, H, V, R;
};

double block_flops(const Dims& d) {
  return 2 * d.R * (4 * d.D * d.D + 3 * d.D * d.F) + 4 * d.B * d.T * d.T * d.D;
}

double forward_flops(const Dims& d) { return d.L * block_flops(d) + 2 * d.R * d.D * d.V; }

// What one block keeps for backward.
double block_activations(const Dims& d, const Precision& p) {
  const double residual = bytes_of(p.residual) * d.R * d.D;
  const double rstd = bytes_of(p.statistics) * d.R;
  const double rows = bytes_of(p.compute) * d.R * (d.D + 3 * d.D + d.D + d.D + 2 * d.F + d.F);
  const double probabilities = bytes_of(p.compute) * d.B * d.H * d.T * d.T;
  return 2 * (residual + rstd) + rows + probabilities;
}

double head_activations(const Dims& d, const Precision& p) {
  return bytes_of(p.residual) * d.R * d.D + 2 * bytes_of(p.statistics) * d.R +
         bytes_of(p.compute) * d.R * d.D + bytes_of(p.logits) * d.R * d.V;
}

// The most that one block's forward holds when nothing is kept.
double inference_activations(const Dims& d, const Precision& p) {
  const double c = bytes_of(p.compute);
  const double residual = bytes_of(p.residual) * d.R * d.D;
  const double attention = residual + c * (4 * d.R * d.D + d.B * d.H * d.T * d.T);
  const double ffn = residual + c * d.R * 3 * d.F;
  const double head = residual + c * d.R * d.D + bytes_of(p.logits) * d.R * d.V;
  return std::max({attention, ffn, head});
}

bool has_backward(Mode mode) { return mode == Mode::forward_backward || mode == Mode::train_step; }

}  // namespace

double model_flops(const StepShape& shape) {
  const Dims d(shape);
  return forward_flops(d) * (has_backward(shape.mode) ? 3 : 1);
}

double step_flops(const StepShape& shape) {
  const Dims d(shape);
  const bool again = has_backward(shape.mode) && shape.recompute > 0;
  return model_flops(shape) + (again ? d.L * block_flops(d) : 0);
}

MemoryForm memory_form(const StepShape& shape) {
  const Dims d(shape);
  const Precision& p = shape.precision;
  const auto n = static_cast<double>(shape.model.parameters());
  MemoryForm m;
  m.parameters = n * (bytes_of(p.parameters) + (p.mixed() ? bytes_of(p.compute) : 0));
  if (has_backward(shape.mode)) m.gradients = n * bytes_of(p.gradients);
  if (shape.mode == Mode::train_step) m.optimizer = 2 * n * bytes_of(p.parameters);
  if (shape.mode == Mode::inference) {
    m.activations = inference_activations(d, p);
    return m;
  }
  const double block = block_activations(d, p);
  const double input = 2 * bytes_of(p.residual) * d.R * d.D;
  const double every = shape.recompute;
  const double blocks = shape.recompute > 0 ? std::ceil(d.L / every) * input : d.L * block;
  m.activations = blocks + head_activations(d, p);
  if (has_backward(shape.mode)) {
    // The last block's backward begins when the head's activations are gone: the gradients of the
    // residual stream and of the FFN's inner width, and with recompute the group that is kept
    // again.
    const double c = bytes_of(p.compute);
    const double group = shape.recompute > 0 ? std::min(every, d.L) * block : 0;
    const double in_block =
        group + bytes_of(p.residual) * d.R * d.D + c * d.R * ((p.mixed() ? d.D : 0) + 3 * d.F);
    m.transient = std::max(bytes_of(p.compute) * d.R * d.D, in_block - head_activations(d, p));
  }
  return m;
}

double step_bytes(const StepShape& shape) {
  const MemoryForm m = memory_form(shape);
  const bool backward = has_backward(shape.mode);
  const auto n = static_cast<double>(shape.model.parameters());
  const double read = n * bytes_of(shape.precision.compute) * (backward ? 3 : 1);
  const double update =
      shape.mode == Mode::train_step
          ? m.parameters + n * bytes_of(shape.precision.parameters) + 2 * m.optimizer + m.gradients
          : 0;
  return read + m.gradients + update + m.activations * (backward ? 2 : 1);
}

}  // namespace paceline
