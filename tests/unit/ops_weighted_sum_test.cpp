#include <numeric>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

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
