#include "model/accounting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace paceline {

namespace {

// Dimensions, and bytes of an element of each kind.
struct Dims {
  explicit Dims(const StepShape& s)
      : B(static_cast<double>(s.batch)),
        T(static_cast<double>(s.model.context)),
        D(static_cast<double>(s.model.d_model)),
        F(static_cast<double>(s.model.d_ff)),
        L(static_cast<double>(s.model.layers)),
        H(static_cast<double>(s.model.heads)),
        V(static_cast<double>(s.model.vocab)),
        R(B * T),
        compute(bytes_of(s.precision.compute)),
        residual(bytes_of(s.precision.residual)),
        statistics(bytes_of(s.precision.statistics)),
        logits(bytes_of(s.precision.logits)) {}
  double B, T, D, F, L, H, V, R;
  double compute, residual, statistics, logits;
};

// Forward of one block: products with weights.
double projection_flops(const Dims& d) { return 2 * d.R * 4 * d.D * d.D; }
double feed_forward_flops(const Dims& d) { return 2 * d.R * 3 * d.D * d.F; }
// Forward of one block: Q K^T and P V with the full T x T matrix.
double square_flops(const Dims& d) { return 4 * d.B * d.T * d.T * d.D; }
double head_flops(const Dims& d) { return 2 * d.R * d.D * d.V; }

// The FLOPs of this many forward passes of the blocks' products with weights, of the head, and of
// the T x T products.
ProductFlops flops_of_passes(const Dims& d, double blocks, double head, double squares) {
  return {.projections = d.L * projection_flops(d) * blocks,
          .feed_forward = d.L * feed_forward_flops(d) * blocks,
          .head = head_flops(d) * head,
          .attention = d.L * square_flops(d) * squares};
}

// Bytes that one block's attention keeps besides qkv and its result.
double attention_kept(const StepShape& s) {
  return attention_kept_bytes(
      s.attention, s.precision,
      {.batch = s.batch, .context = s.model.context, .heads = s.model.heads});
}

// Arrays [R, F] that SwiGLU keeps: two operands, and the result unless it is recomputed.
double swiglu_kept(const StepShape& s) { return s.recompute_swiglu ? 2 : 3; }
// Bytes that one block keeps for backward.
double block_activations(const StepShape& s) {
  const Dims d(s);
  return 2 * d.R * (d.residual * d.D + d.statistics) +
         d.compute * d.R * (6 * d.D + swiglu_kept(s) * d.F) + attention_kept(s);
}

double head_activations(const Dims& d) {
  return d.R * ((d.residual + d.compute) * d.D + 2 * d.statistics + d.logits * d.V);
}

// Bytes of the float32 copies of a GEMM in a half type: operands [m, k], [k, n] and result [m, n].
double widened(const StepShape& s, double m, double k, double n) {
  return s.upcasts_gemm_inputs && s.precision.mixed() ? 4 * (m * k + k * n + m * n) : 0;
}

// Peak bytes of each part of forward in inference, where nothing is kept for backward.
struct ForwardForm {
  ForwardForm(const StepShape& s, const Dims& d) {
    const double c = d.compute;
    const double residual = d.residual * d.R * d.D;
    const bool products = s.attention != AttentionKind::flash;
    attention = residual + c * 4 * d.R * d.D + attention_kept(s) +
                (products ? d.B * d.H * widened(s, d.T, d.T, d.D / d.H) : 0);
    const double product = std::max(widened(s, d.R, d.D, 2 * d.F), c * d.R * d.F);
    feed_forward = residual + c * d.R * (d.D + 2 * d.F) + product;
    const double logsumexp = d.statistics * d.R;
    head = head_activations(d) - logsumexp + std::max(widened(s, d.R, d.D, d.V), logsumexp);
  }
  [[nodiscard]] double block() const { return std::max(attention, feed_forward); }
  double attention, feed_forward, head;
};

// Elements of the second gradient buffer, in Precision::gradients, from which the exchanged
// gradients are rounded. If these have the compute dtype, GEMMs write them directly and only
// gradients of norms and the embedding need the second buffer.
double unrounded_gradients(const StepShape& s) {
  const Dims d(s);
  const Precision& p = s.precision;
  if (p.communication == p.gradients) return 0;
  if (p.communication != p.compute)
    return s.gradient_window > 0 ? s.gradient_window : static_cast<double>(s.model.parameters());
  return d.D * (2 * d.L + 1 + d.V);
}

// Elements of the gradient buffer that is exchanged.
double gradient_elements(const StepShape& s) {
  const double kept =
      s.gradient_elements < 0 ? static_cast<double>(s.model.parameters()) : s.gradient_elements;
  return kept + s.gradient_window;
}

bool has_backward(Mode mode) { return mode == Mode::forward_backward || mode == Mode::train_step; }

// Activations that forward keeps: those of every block or, with recomputation, the inputs of groups
// of blocks.
std::string kept_formula(const StepShape& s) {
  const Dims d(s);
  if (s.recompute == 0) {
    return fmt::format("{} x {} + {}", d.L, block_activations(s), head_activations(d));
  }
  const double groups = std::ceil(d.L / s.recompute);
  return fmt::format("{0} x {1} x {2} x {3} + {4} x {1} x {2} x {5} + {6}", groups, d.R, d.D,
                     d.residual, groups - 1, d.compute, head_activations(d));
}

}  // namespace

ProductFlops model_flops(const StepShape& shape) {
  const double passes = has_backward(shape.mode) ? 3 : 1;
  return flops_of_passes(Dims(shape), passes, passes, passes / 2);
}

ProductFlops step_flops(const StepShape& shape) {
  const bool backward = has_backward(shape.mode);
  const double again = backward && shape.recompute > 0 ? 1 : 0;
  const double passes = backward ? 3 : 1;
  const double squares = shape.attention == AttentionKind::flash
                             ? (1 + (backward ? attention_backward_factor : 0) + again) / 2
                             : passes + again;
  return flops_of_passes(Dims(shape), passes + again, passes, squares);
}

MemoryForm memory_form(const StepShape& shape) {
  const Dims d(shape);
  const Precision& p = shape.precision;
  const auto n = static_cast<double>(shape.model.parameters());
  MemoryForm m;
  const GatheredShape& gathered = shape.gathered;
  const double copy = p.mixed() && gathered.slots == 0 ? bytes_of(p.compute) : 0;
  m.parameters = n * (bytes_of(p.parameters) + copy) * shape.parameter_share;
  m.gathered = gathered.slots * gathered.slot * bytes_of(p.compute) +
               gathered.resident * bytes_of(p.parameters);
  if (has_backward(shape.mode)) {
    m.gradients = gradient_elements(shape) * bytes_of(p.communication) +
                  unrounded_gradients(shape) * bytes_of(p.gradients);
  }
  if (shape.mode == Mode::train_step) {
    m.optimizer = 2 * n * bytes_of(p.parameters) * shape.optimizer_share;
  }
  if (shape.mode == Mode::inference) {
    const ForwardForm forward(shape, d);
    m.activations = std::max(forward.block(), forward.head);
    return m;
  }
  const double block = block_activations(shape);
  const double head = head_activations(d);
  const double output = d.compute * d.R * d.D;
  const double residual = d.residual * d.R * d.D;
  // With recomputation, a group of blocks keeps its input: the residual stream and the previous
  // sublayer's output. The first group has no previous sublayer.
  const double every = shape.recompute;
  const double groups = shape.recompute > 0 ? std::ceil(d.L / every) : 0;
  const double inputs = groups * (residual + output) - output;
  m.activations = (shape.recompute > 0 ? inputs : d.L * block) + head;
  // The peak of forward is in the head or in the last block.
  const double product = shape.recompute_swiglu ? d.compute * d.R * d.F : 0;  // not kept
  const double in_forward = shape.recompute > 0 ? ForwardForm(shape, d).block()
                                                : std::max(widened(shape, d.R, d.D, 2 * d.F),
                                                           product + widened(shape, d.R, d.F, d.D));
  const double forward = std::max(widened(shape, d.R, d.D, d.V), in_forward - head);
  m.transient = forward;
  if (has_backward(shape.mode)) {
    // A gradient overwrites the activation that it belongs to, so it needs no memory of its own.
    const double head_backward = widened(shape, d.R, d.V, d.D);
    // The last block's backward: the head's activations have been freed. In memory are the block's
    // own (with recomputation its group's, instead of the group's input), the gradient of the
    // residual stream, and the largest of: the recomputed output, the workspace of w2's gradient,
    // the workspace of the gradient of w1 | w3 minus w2's input, which has been freed by then.
    const double input = residual + output;
    const double last = d.L - (groups - 1) * every;  // blocks of the last group
    const double group = shape.recompute > 0 ? std::max(last * block - input,
                                                        groups > 1 ? every * block - 2 * input : 0)
                                             : 0;
    const double w2 = (p.mixed() ? output : 0) + widened(shape, d.R, d.F, d.D);
    const double w13 = widened(shape, d.R, 2 * d.F, d.D) - d.compute * d.R * d.F;
    const double in_block =
        group + residual + product + std::max({shape.recompute > 0 ? output : 0, w2, w13});
    m.transient = std::max({forward, head_backward, in_block - head});
  }
  return m;
}

std::vector<MemoryLine> memory_lines(const StepShape& shape) {
  const Dims d(shape);
  const Precision& p = shape.precision;
  const MemoryForm m = memory_form(shape);
  const auto n = shape.model.parameters();
  std::vector<MemoryLine> lines;
  const auto state = [&](const char* what, const std::string& formula, double bytes,
                         MemoryKind kind) {
    if (bytes > 0)
      lines.push_back({.what = what, .formula = formula, .bytes = bytes, .kind = kind});
  };
  const auto share = [](double of) { return of < 1 ? fmt::format(" x {:.4g}", of) : ""; };
  state("parameters",
        (p.mixed() && shape.gathered.slots == 0
             ? fmt::format("{} x ({} + {})", n, bytes_of(p.parameters), d.compute)
             : fmt::format("{} x {}", n, bytes_of(p.parameters))) +
            share(shape.parameter_share),
        m.parameters, MemoryKind::parameter);
  const GatheredShape& gathered = shape.gathered;
  state("gathered parameters",
        fmt::format("{} x {} x {} + {} x {}", gathered.slots, gathered.slot, d.compute,
                    gathered.resident, bytes_of(p.parameters)),
        m.gathered, MemoryKind::gathered);
  const double unrounded = unrounded_gradients(shape);
  state("gradients",
        fmt::format("{:.0f} x {}", gradient_elements(shape), bytes_of(p.communication)) +
            (unrounded > 0 ? fmt::format(" + {} x {}", unrounded, bytes_of(p.gradients)) : ""),
        m.gradients, MemoryKind::gradient);
  state("optimizer state",
        fmt::format("2 x {} x {}", n, bytes_of(p.parameters)) + share(shape.optimizer_share),
        m.optimizer, MemoryKind::optimizer_state);
  const auto part = [&](const char* what, const std::string& formula, double bytes,
                        const std::string& scope) {
    lines.push_back({.what = what,
                     .formula = formula,
                     .bytes = bytes,
                     .measure = MemoryMeasure::scope,
                     .scope = scope});
  };
  const std::string rows = fmt::format("{} x {}", d.B, d.T);
  if (shape.mode == Mode::inference) {
    const ForwardForm forward(shape, d);
    lines.push_back({.what = "activations, at most",
                     .formula = fmt::format("max(attention {}, feed-forward {}, head {})",
                                            forward.attention, forward.feed_forward, forward.head),
                     .bytes = m.activations,
                     .measure = MemoryMeasure::added_by_forward});
  } else {
    if (shape.recompute == 0) {
      part("residual stream", fmt::format("{} x {} x {}", rows, d.D, d.residual),
           d.R * d.D * d.residual, "forward/embedding");
    }
    if (shape.recompute == 0 && d.L > 1) {
      const bool flash = shape.attention == AttentionKind::flash;
      const std::string attention =
          flash ? fmt::format("{} x {} x {} x {}", d.B, d.H, d.T, d.statistics)
                : fmt::format("{} x {} x {}^2 x {}", d.B, d.H, d.T, d.compute);
      part(
          "a block",
          fmt::format("2 x {0} x ({1} x {2} + {3}) + {0} x (6 x {1} + {7} x {4}) x {5} + {6}", rows,
                      d.D, d.residual, d.statistics, d.F, d.compute, attention, swiglu_kept(shape)),
          block_activations(shape), "forward/block 1/");
      const std::string scope = "forward/block 1/attention/scaled dot product attention/";
      part(flash ? "its logsumexp" : "its attention probabilities", attention,
           attention_kept(shape), scope + (flash ? "logsumexp" : "computing attention scores"));
    }
    part("the head",
         fmt::format("{0} x ({1} x ({2} + {3}) + 2 x {4} + {5} x {6})", rows, d.D, d.residual,
                     d.compute, d.statistics, d.V, d.logits),
         head_activations(d), "forward/head");
    part("its logits", fmt::format("{} x {} x {}", rows, d.V, d.logits), d.R * d.V * d.logits,
         "forward/head/logits");
    lines.push_back({.what = "activations before backward",
                     .formula = kept_formula(shape),
                     .bytes = m.activations});
  }
  lines.push_back({.what = "peak",
                   .formula = fmt::format("the sum of the above + {:.0f}", m.transient),
                   .bytes = m.peak(),
                   .measure = MemoryMeasure::peak});
  return lines;
}

double step_bytes(const StepShape& shape) {
  // Every gradient is moved once, even if a window holds few of them at a time.
  StepShape whole = shape;
  whole.gradient_elements = -1;
  whole.gradient_window = 0;
  whole.parameter_share = 1;
  whole.gathered = {};
  const MemoryForm m = memory_form(whole);
  const bool backward = has_backward(shape.mode);
  const auto n = static_cast<double>(shape.model.parameters());
  const double read = n * bytes_of(shape.precision.compute) * (backward ? 3 : 1);
  const double update =
      shape.mode == Mode::train_step
          ? (m.parameters + n * bytes_of(shape.precision.parameters) + m.gradients) *
                    shape.optimizer_share +
                2 * m.optimizer
          : 0;
  return read + m.gradients + update + m.activations * (backward ? 2 : 1);
}

}  // namespace paceline
