#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

constexpr double eps = 1e-5;

struct NormResults {
  std::vector<double> y;
  std::vector<double> rstd;
};

class Norm : public OpsTest {
 protected:
  // RMSNorm by its definition.
  static NormResults expected(const Tensor& x, const Tensor& w) {
    const auto n = static_cast<std::size_t>(x.cols());
    const std::vector<double> xv = values(x);
    const std::vector<double> wv = values(w);
    NormResults e;
    for (std::size_t r = 0; r < xv.size(); r += n) {
      double squares = 0;
      for (std::size_t j = 0; j < n; ++j) squares += xv[r + j] * xv[r + j] / static_cast<double>(n);
      const double rstd = 1 / std::sqrt(squares + eps);
      for (std::size_t j = 0; j < n; ++j) e.y.push_back(xv[r + j] * rstd * wv[j]);
      e.rstd.push_back(rstd);
    }
    return e;
  }
};

TEST_F(Norm, rms_norm_forward) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Array x = f64({rows, cols});
    const Array w = f64({cols});
    const Array y = nans({rows, cols});
    const Array rstd = nans({rows});
    ops->rms_norm(y, rstd, x, w, eps);
    const NormResults e = expected(x, w);
    expect_close(y, e.y);
    expect_close(rstd, e.rstd);
  });
}

// Of one column, which is near 0 in some row, a small eps would leave differences without a limit
// at their step.
TEST_F(Norm, rms_norm_backward_by_finite_differences) {
  constexpr double smooth = 1e-2;
  for (const bool with_input : {false, true}) {
    SCOPED_TRACE(with_input);
    for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
      const Array x = f64({rows, cols});
      const Array w = f64({cols});
      const Array dy = f64({rows, cols});
      const Array y = nans({rows, cols});
      const Array rstd = nans({rows});
      const Array dx_in = with_input ? f64({rows, cols}) : Array();
      const auto loss = [&] {  // with dx_in, x has a second use
        ops->rms_norm(y, rstd, x, w, smooth);
        return dot(y, dy) + (with_input ? dot(x, dx_in) : 0);
      };
      loss();
      const Array dx = nans({rows, cols});
      const Array dw = nans({cols});
      ops->rms_norm_backward(dx, dx_in, dw, dy, x, w, rstd, false);
      const std::vector<double> dx_values = values(dx);
      std::vector<double> dw_values = values(dw);
      expect_gradient(x, dx, loss);
      expect_gradient(w, dw, loss);

      loss();  // recomputes rstd
      for (double& v : dw_values) v *= 2;
      const Array& in_place = with_input ? dx_in : dy;
      ops->rms_norm_backward(in_place, dx_in, dw, dy, x, w, rstd, true);
      expect_close(in_place, dx_values);
      expect_close(dw, dw_values, 1, 20);
    });
  }
}

using WeightedSum = OpsTest;

TEST_F(WeightedSum, forward) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Array x = f64({rows, cols});
    const Array w = f64({cols});
    const Array y = nans({rows});
    ops->weighted_sum(y, x, w);
    const std::vector<double> xv = values(x);
    const std::vector<double> wv = values(w);
    std::vector<double> want;
    for (std::size_t r = 0; r < xv.size(); r += wv.size()) {
      const auto row = xv.begin() + static_cast<std::ptrdiff_t>(r);
      want.push_back(std::inner_product(wv.begin(), wv.end(), row, 0.0));
    }
    expect_close(y, want, 1, 12);
  });
}

TEST_F(WeightedSum, backward_by_finite_differences) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Array x = f64({rows, cols});
    const Array w = f64({cols});
    const Array dy = f64({rows});
    const Array y = nans({rows});
    const Array dx = nans({rows, cols});
    const Array dw = nans({cols});
    ops->weighted_sum_backward(dx, dw, dy, x, w);
    const auto loss = [&] {
      ops->weighted_sum(y, x, w);
      return dot(y, dy);
    };
    expect_gradient(x, dx, loss);
    expect_gradient(w, dw, loss);
  });
}

}  // namespace
}  // namespace paceline
