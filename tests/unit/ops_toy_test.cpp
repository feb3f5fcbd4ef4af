#include <algorithm>
#include <limits>
#include <vector>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

using Toy = OpsTest;

TEST_F(Toy, weighted_sum_forward) {
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

TEST_F(Toy, weighted_sum_backward_by_finite_differences) {
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

TEST_F(Toy, add_bias_and_its_gradient) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t rows : odd_rows) {
      for (const std::int64_t cols : odd_cols) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(testing::Message() << name_of(d) << " " << rows << " " << cols);
          const Array y = random({rows, cols}, d);
          const Array bias = random({cols}, Dtype::f32);
          const Array dbias =
              accumulate ? random({cols}, Dtype::f32) : poisoned({cols}, Dtype::f32);
          const std::vector<double> b = values(bias);
          std::vector<double> sums(b.size());
          if (accumulate) sums = values(dbias);
          std::vector<double> want = values(y);
          for (std::size_t i = 0; i < want.size(); ++i) {
            sums[i % b.size()] += want[i];
            want[i] += b[i % b.size()];
          }
          toys->bias_backward(dbias, y, accumulate);
          expect_close(dbias, sums);
          toys->add_bias(y, bias);
          expect_close(y, want);
        }
      }
    }
  }
}

TEST_F(Toy, relu_and_its_gradient_apart_and_in_place) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t n : {1, 3, 127, 129, 20001}) {
      const Array x = random({n}, d);
      const Array dy = random({n}, d);
      const Array y = poisoned({n}, d);
      const Array dx = poisoned({n}, d);
      toys->relu(y, x);
      toys->relu_backward(dx, dy, y);
      std::vector<double> want_y = values(x);
      std::vector<double> want_dx = values(dy);
      for (std::size_t i = 0; i < want_y.size(); ++i) {
        if (want_y[i] <= 0) want_dx[i] = 0;
        want_y[i] = std::max(want_y[i], 0.0);
      }
      EXPECT_EQ(values(y), want_y);
      EXPECT_EQ(values(dx), want_dx);
      toys->relu(x, x);
      EXPECT_EQ(values(x), want_y);
      toys->relu_backward(dy, dy, y);
      EXPECT_EQ(values(dy), want_dx);
    }
  }
  const Array bad = tensor({1}, Dtype::f32, {std::numeric_limits<double>::quiet_NaN()});
  toys->relu(bad, bad);
  EXPECT_TRUE(std::isnan(values(bad)[0])) << "a NaN must not be hidden";
}

}  // namespace
}  // namespace paceline
