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

// float32 copies of the operands [m, k], [k, n] and of a result [m, n] in a half type.
double widened(const StepShape& s, double m, double k, double n) {
  return s.widens_gemms && s.precision.mixed() ? 4 * (m * k + k * n + m * n) : 0;
}

// The most that a block's forward holds when nothing is kept: in attention or in the FFN.
double block_forward(const StepShape& s, const Dims& d) {
  const double c = bytes_of(s.precision.compute);
  const double residual = bytes_of(s.precision.residual) * d.R * d.D;
  const double scores = d.B * d.H * d.T * d.T;
  const double head_dim = d.D / d.H;
  const double attention =
      residual + c * (4 * d.R * d.D + scores) + d.B * d.H * widened(s, d.T, d.T, head_dim);
  const double ffn = residual + c * d.R * 3 * d.F + widened(s, d.R, d.D, 2 * d.F);
  return std::max(attention, ffn);
}

double inference_activations(const StepShape& s, const Dims& d) {
  const double c = bytes_of(s.precision.compute);
  const double head =
      c * d.R * d.D + bytes_of(s.precision.logits) * d.R * d.V + widened(s, d.R, d.D, d.V);
  return std::max(block_forward(s, d), head);
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
    m.activations = inference_activations(shape, d);
    return m;
  }
  const double block = block_activations(d, p);
  const double head = head_activations(d, p);
  const double c = bytes_of(p.compute);
  const double residual = bytes_of(p.residual) * d.R * d.D;
  // With recomputation a group of blocks keeps what comes into it: the residual stream and the last
  // sublayer's output, which the first group does not have.
  const double every = shape.recompute;
  const double groups = shape.recompute > 0 ? std::ceil(d.L / every) : 0;
  const double inputs = groups * (residual + c * d.R * d.D) - (groups > 0 ? c * d.R * d.D : 0);
  const double kept = shape.recompute > 0 ? inputs : d.L * block;
  m.activations = kept + head;
  // In the head's forward, or in the last block's.
  const double in_forward =
      shape.recompute > 0 ? block_forward(shape, d) : widened(shape, d.R, d.D, 2 * d.F);
  const double forward = std::max(widened(shape, d.R, d.D, d.V), in_forward - head);
  m.transient = forward;
  if (has_backward(shape.mode)) {
    const double head_backward = c * d.R * d.D + widened(shape, d.R, d.V, d.D);
    // The last block's backward: the head's activations are gone, its own (with recomputation, its
    // group's, in place of the group's input) are there, and the gradients of the residual stream
    // and of what w2 reads; that of w1 | w3's output takes its place.
    const double group =
        shape.recompute > 0 ? std::min(every, d.L) * block - residual - c * d.R * d.D : 0;
    const double in_block = group + residual + c * d.R * ((p.mixed() ? d.D : 0) + d.F) +
                            widened(shape, d.R, 2 * d.F, d.D);
    m.transient = std::max({forward, head_backward, in_block - head});
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
