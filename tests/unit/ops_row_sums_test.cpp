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
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t rows : odd_rows) {
      for (const std::int64_t cols : odd_cols) {
        SCOPED_TRACE(testing::Message() << name_of(d) << " " << rows << " " << cols);
        const Dtype statistics = d == Dtype::f64 ? Dtype::f64 : Dtype::f32;
        const Array x = random({rows, cols}, d);
        const Array w = random({cols}, statistics);
        const Array y = poisoned({rows, cols}, d);
        const Array rstd = poisoned({rows}, statistics);
        ops->rms_norm(y, rstd, x, w, eps);
        const NormResults e = expected(x, w);
        expect_close(y, e.y);
        expect_close(rstd, e.rstd);
      }
    }
  }
}

TEST_F(Norm, rms_norm_reads_float_and_writes_a_half_type) {
  for (const Dtype d : {Dtype::bf16, Dtype::f16}) {
    const Array x = random({127, 131}, Dtype::f32);
    const Array w = random({131}, Dtype::f32);
    const Array y = poisoned({127, 131}, d);
    const Array rstd = poisoned({127}, Dtype::f32);
    ops->rms_norm(y, rstd, x, w, eps);
    expect_close(y, expected(x, w).y, 0.51);  // rounded once, at the end
  }
}

TEST_F(Norm, rms_norm_backward_by_finite_differences) {
  for (const std::int64_t rows : odd_rows) {
    for (const std::int64_t cols : odd_cols) {
      for (const bool with_input : {false, true}) {
        SCOPED_TRACE(testing::Message() << rows << " " << cols << " " << with_input);
        const Array x = random({rows, cols}, Dtype::f64);
        const Array w = random({cols}, Dtype::f64);
        const Array dy = random({rows, cols}, Dtype::f64);
        const Array y = poisoned({rows, cols}, Dtype::f64);
        const Array rstd = poisoned({rows}, Dtype::f64);
        const Array dx_in = with_input ? random({rows, cols}, Dtype::f64) : Array();
        const auto loss = [&] {  // with dx_in, x has a second use
          ops->rms_norm(y, rstd, x, w, eps);
          return dot(y, dy) + (with_input ? dot(x, dx_in) : 0);
        };
        loss();
        const Array dx = poisoned({rows, cols}, Dtype::f64);
        const Array dw = poisoned({cols}, Dtype::f64);
        ops->rms_norm_backward(dx, dx_in, dw, dy, x, w, rstd, false);
        const std::vector<double> dx_values = values(dx);
        std::vector<double> dw_values = values(dw);
        expect_gradient(x, dx, loss);
        expect_gradient(w, dw, loss);

        loss();  // recomputes rstd
        for (double& v : dw_values) v *= 2;
        if (with_input) ops->rms_norm_backward(dx_in, dx_in, dw, dy, x, w, rstd, true);
        if (with_input) expect_close(dx_in, dx_values);
        if (!with_input) ops->rms_norm_backward(dy, dx_in, dw, dy, x, w, rstd, true);
        if (!with_input) expect_close(dy, dx_values);
        expect_close(dw, dw_values, 1, 20);
      }
    }
  }
}

TEST_F(Norm, rms_norm_backward_of_mixed_dtypes) {
  for (const Dtype d : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const std::int64_t rows : odd_rows) {
      SCOPED_TRACE(testing::Message() << name_of(d) << " " << rows);
      const Shape shape = {rows, 131};
      const Array x = random(shape, Dtype::f32);
      const Array w = random({131}, Dtype::f32);
      const Array dy = random(shape, d);
      const Array dx_in = random(shape, Dtype::f32);
      const Array rstd = tensor({rows}, Dtype::f32, expected(x, w).rstd);
      const Array dx = poisoned(shape, Dtype::f32);
      const Array dw = poisoned({131}, Dtype::f32);
      ops->rms_norm_backward(dx, dx_in, dw, dy, x, w, rstd, false);
      const auto wide = [&](const Tensor& t) { return copy_of(t, Dtype::f64); };
      const Array want_dx = poisoned(shape, Dtype::f64);
      const Array want_dw = poisoned({131}, Dtype::f64);
      ops->rms_norm_backward(want_dx, wide(dx_in), want_dw, wide(dy), wide(x), wide(w), wide(rstd),
                             false);
      expect_close(dx, values(want_dx));
      expect_close(dw, values(want_dw), 1, 4);
    }
  }
}

using WeightedSum = OpsTest;

TEST_F(WeightedSum, forward) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t rows : odd_rows) {
      for (const std::int64_t cols : odd_cols) {
        SCOPED_TRACE(testing::Message() << name_of(d) << " " << rows << " " << cols);
        const Array x = random({rows, cols}, d);
        const Array w = random({cols}, d);
        const Array y = poisoned({rows}, d);
        ops->weighted_sum(y, x, w);
        const std::vector<double> xv = values(x);
        const std::vector<double> wv = values(w);
        std::vector<double> want;
        for (std::size_t r = 0; r < xv.size(); r += wv.size()) {
          want.push_back(std::inner_product(wv.begin(), wv.end(),
                                            xv.begin() + static_cast<std::ptrdiff_t>(r), 0.0));
        }
        expect_close(y, want, 1, 12);
      }
    }
  }
}

TEST_F(WeightedSum, backward_by_finite_differences) {
  for (const std::int64_t rows : odd_rows) {
    for (const std::int64_t cols : odd_cols) {
      SCOPED_TRACE(testing::Message() << rows << " " << cols);
      const Array x = random({rows, cols}, Dtype::f64);
      const Array w = random({cols}, Dtype::f64);
      const Array dy = random({rows}, Dtype::f64);
      const Array y = poisoned({rows}, Dtype::f64);
      const Array dx = poisoned({rows, cols}, Dtype::f64);
      const Array dw = poisoned({cols}, Dtype::f64);
      ops->weighted_sum_backward(dx, dw, dy, x, w);
      const auto loss = [&] {
        ops->weighted_sum(y, x, w);
        return dot(y, dy);
      };
      expect_gradient(x, dx, loss);
      expect_gradient(w, dw, loss);
    }
  }
}

}  // namespace
}  // namespace paceline
