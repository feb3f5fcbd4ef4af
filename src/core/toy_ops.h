#pragma once
// ToyOps: operations of the course's toy models and its exercises on precision, on the device's
// compute stream. Language models do not use them. Notation and dtypes are as in core/ops.h.

#include <cstdint>

#include "core/error.h"
#include "core/non_copyable.h"
#include "core/rounded_norm.h"
#include "core/summation.h"
#include "core/tensor.h"

namespace paceline {

enum class Reduction : std::uint8_t { mean, sum };

// The factor of the sum over n elements.
[[nodiscard]] inline double factor_of(Reduction reduction, std::int64_t n) {
  switch (reduction) {
    case Reduction::mean: return 1 / static_cast<double>(n);
    case Reduction::sum: return 1;
  }
  throw InternalError("a reduction that no loss has");
}

class ToyOps : NonCopyable {
 public:
  virtual ~ToyOps() = default;

  // y[r] += bias.  y [R, D], bias [D]
  virtual void add_bias(const Tensor& y, const Tensor& bias) = 0;
  // dbias (+)= sum over r of dy[r]
  virtual void bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) = 0;

  virtual void relu(const Tensor& y, const Tensor& x) = 0;  // y = max(x, 0); y may be x
  // dx = dy where y > 0, else 0; dx may be dy.
  virtual void relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) = 0;

  // mean and rstd over a row (biased variance), y = (x - mean) rstd w + b.  x, y [R, D], w, b [D],
  // mean, rstd [R]
  virtual void layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                          const Tensor& w, const Tensor& b, double eps) = 0;
  // With xh = (x - mean) rstd and g = dy w: dx = rstd (g - mean(g) - xh mean(g xh)), dw (+)= sum
  // over rows of dy xh, db (+)= sum over rows of dy.
  virtual void layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db,
                                   const Tensor& dy, const Tensor& x, const Tensor& w,
                                   const Tensor& mean, const Tensor& rstd, bool accumulate) = 0;

  // loss = factor_of(reduction) sum((y - target)^2).  loss [1]
  virtual void squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                             Reduction reduction) = 0;
  // dy = 2 factor_of(reduction) (y - target)
  virtual void squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                                      Reduction reduction) = 0;

  // total = sum of x, each addition rounded to total's dtype.  total [1], x [n]
  virtual void sum(const Tensor& total, const Tensor& x, Summation how) = 0;
  // core/rounded_norm.h, every operation rounded to the dtype that x and y share.  x, y [R, D]
  virtual void rounded_norm(const Tensor& y, const Tensor& x, NormKind kind, double eps) = 0;
};

}  // namespace paceline
