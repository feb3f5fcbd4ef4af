#pragma once
// Helpers for tests of composites: parameters with their low-precision copies and gradients.

#include <cmath>
#include <functional>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {

class Composites : public OpsTest {
 protected:
  // A parameter's arrays: float64, or float32 with a copy in the compute dtype.
  struct Weights {
    Array value, compute, gradient;

    [[nodiscard]] Parameter parameter(bool accumulate = false) const {
      return {.value = value, .compute = compute, .gradient = gradient, .accumulate = accumulate};
    }
  };

  Weights weights(const Shape& shape, const Precision& p, double std = 0.5) {
    const Array value = random(shape, p.parameters, std);
    return {.value = value,
            .compute = p.mixed() ? copy_of(value, p.compute) : value,
            .gradient = poisoned(shape, p.gradients)};
  }
  Weights weights(const Shape& shape) { return weights(shape, ops->precision()); }
  // The same numbers in float64: those of the low-precision copy if operations read it.
  Weights widened(const Weights& w, bool low) {
    const Array value = copy_of(low ? w.compute : w.value, Dtype::f64);
    return {.value = value, .compute = value, .gradient = poisoned(w.value.shape(), Dtype::f64)};
  }
  Array rope_table(std::int64_t context, std::int64_t head_dim, Dtype d) {
    std::vector<double> t;
    for (std::int64_t i = 0; i < context * head_dim / 2; ++i) {
      t.push_back(std::cos(0.1 * static_cast<double>(i)));
      t.push_back(std::sin(0.1 * static_cast<double>(i)));
    }
    return tensor({context, head_dim / 2, 2}, d, t);
  }

  StepState state_with_targets(const Shape& shape, std::int32_t vocabulary, Dtype loss,
                               bool scaling) {
    StepState s = StepState::create(device, shape[0], shape[1], loss, scaling, 0.1);
    s.targets = random_integers({shape[0], shape[1]}, vocabulary);
    return s;
  }

  // Runs backward() twice: overwriting a gradient of NaN, then adding to it.
  static void expect_accumulation(const Weights& w,
                                  const std::function<void(Parameter)>& backward) {
    backward(w.parameter(false));
    const std::vector<double> once = values(w.gradient);
    backward(w.parameter(true));
    std::vector<double> twice = once;
    for (double& v : twice) v *= 2;
    expect_close(w.gradient, twice, 1, 10);
    backward(w.parameter(false));
    expect_close(w.gradient, once, 0);
  }
};

}  // namespace paceline
