#include <vector>

#include "core/error.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

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
