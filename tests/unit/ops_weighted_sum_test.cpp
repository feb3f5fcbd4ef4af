#include <numeric>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

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
