#include <cmath>
#include <numeric>
#include <vector>

#include "core/error.h"
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

class CrossEntropy : public OpsTest {
 protected:
  StepState state = StepState::create(device, 1, 1, Dtype::f64, false, 0.1);
};

TEST_F(CrossEntropy, of_huge_logits) {
  const Array logits = tensor({2, 2}, Dtype::f32, {10000, -10000, 10000, -10000});
  const Array loss = poisoned({1}, Dtype::f32);
  const Array logsumexp = poisoned({2}, Dtype::f32);
  ops->cross_entropy(loss, logsumexp, logits, integers({2}, {0, 1}));
  EXPECT_EQ(values(loss), std::vector<double>{10000});  // the mean of 0 and 20000
  EXPECT_EQ(values(logsumexp), (std::vector<double>{10000, 10000}));
}

TEST_F(CrossEntropy, backward_by_finite_differences_in_place_and_scaled) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Array logits = f64({rows, cols});
    const Array targets = random_integers({rows}, static_cast<std::int32_t>(cols));
    const Array loss = nans({1});
    const Array logsumexp = nans({rows});
    const auto forward = [&] {
      ops->cross_entropy(loss, logsumexp, logits, targets);
      return values(loss)[0];
    };
    forward();
    const Array dlogits = nans({rows, cols});
    state.set(device, StepScalar::loss_scale, 1);
    ops->cross_entropy_backward(dlogits, logits, logsumexp, targets, state);
    std::vector<double> want = values(dlogits);
    state.set(device, StepScalar::loss_scale, 1024);
    for (double& v : want) v *= 1024;
    for (const Dtype d : floating_dtypes) {
      const Array in_place = copy_of(logits, d);
      ops->cross_entropy_backward(in_place, in_place, logsumexp, targets, state);
      // exp(x) of a logit rounded to a half type
      expect_close(in_place, want, 4, 1024.0 / static_cast<double>(rows));
    }
    expect_gradient(logits, dlogits, forward);
  });
}

TEST_F(CrossEntropy, leaves_rows_without_a_target_out_of_the_mean) {
  const Array logits = f64({3, 7});
  const Array targets = integers({3}, {2, no_target, 5});
  const Array loss = nans({1});
  const Array logsumexp = nans({3});
  const auto forward = [&] {
    ops->cross_entropy(loss, logsumexp, logits, targets);
    return values(loss)[0];
  };
  const double got = forward();
  const std::vector<double> x = values(logits);
  const std::vector<double> sums = values(logsumexp);
  EXPECT_DOUBLE_EQ(got, (sums[0] - x[2] + sums[2] - x[14 + 5]) / 2);
  const Array dlogits = nans({3, 7});
  state.set(device, StepScalar::loss_scale, 1);
  state.without_target = 1;
  ops->cross_entropy_backward(dlogits, logits, logsumexp, targets, state);
  state.without_target = 0;
  const std::vector<double> gradient = values(dlogits);
  for (std::size_t i = 7; i < 14; ++i) EXPECT_EQ(gradient[i], 0);
  expect_gradient(logits, dlogits, forward);
}

TEST_F(CrossEntropy, refuses_targets_outside_the_vocabulary) {
  const Array logits = random({1, 5}, Dtype::f32);
  const Array one = random({1}, Dtype::f32);
  for (const std::int32_t target : {-2, 5}) {
    EXPECT_THROW(ops->cross_entropy(one, one, logits, integers({1}, {target})), InternalError);
  }
}

}  // namespace
}  // namespace paceline
