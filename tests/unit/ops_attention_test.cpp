// RoPE, causal mask, softmax, and softmax fused with scale and mask. The attention composite is in
// ops_composites_test.cpp.

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/unit/constants.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

class Rope : public OpsTest {
 protected:
  // table [T, d/2, 2]
  Array table(std::int64_t context, std::int64_t head_dim) {
    std::vector<double> t;
    for (std::int64_t p = 0; p < context; ++p) {
      for (std::int64_t j = 0; j < head_dim; j += 2) {
        const double angle =
            static_cast<double>(p) *
            std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(head_dim));
        t.push_back(std::cos(angle));
        t.push_back(std::sin(angle));
      }
    }
    return tensor({context, head_dim / 2, 2}, Dtype::f64, t);
  }

  static std::vector<double> expected(const Tensor& qkv, const Tensor& table, double direction) {
    const Shape& s = qkv.shape;  // [B, T, 3, H, d]
    std::vector<double> x = values(qkv);
    const std::vector<double> angles = values(table);
    for (std::int64_t i = 0; i < qkv.numel(); i += 2) {
      const std::int64_t which = i / (s[4] * s[3]) % 3;
      const std::int64_t position = i / (s[4] * s[3] * 3) % s[1];
      if (which == 2) continue;
      const auto at = static_cast<std::size_t>(i);
      const auto angle = static_cast<std::size_t>(position * s[4] + i % s[4]);
      const double c = angles[angle];
      const double sine = direction * angles[angle + 1];
      const double x0 = x[at];
      const double x1 = x[at + 1];
      x[at] = c * x0 - sine * x1;
      x[at + 1] = sine * x0 + c * x1;
    }
    return x;
  }
};

// The inverse is also the gradient: Composites.qkv_rope has it by finite differences.
TEST_F(Rope, turns_q_and_k_both_ways_and_leaves_v) {
  for (const Shape& shape : {Shape{1, 1, 3, 1, 2}, Shape{2, 3, 3, 3, 6}, Shape{3, 127, 3, 1, 10},
                             Shape{1, 129, 3, 4, 8}}) {
    for (const bool inverse : {false, true}) {
      SCOPED_TRACE(testing::Message() << shape.str() << " " << inverse);
      const Array angles = table(shape[1], shape[4]);
      const Array qkv = f64(shape);
      const std::vector<double> want = expected(qkv, angles, inverse ? -1 : 1);
      ops->rope(qkv, angles, inverse);
      expect_close(qkv, want);
    }
  }
}

using Mask = OpsTest;

TEST_F(Mask, hides_later_positions_only) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t context : odd_rows) {
      const Array scores = random({2, 3, context, context}, d);
      std::vector<double> want = values(scores);
      for (std::int64_t i = 0; i < scores.tensor().numel(); ++i) {
        const std::int64_t row = i / context % context;
        if (i % context > row) want[static_cast<std::size_t>(i)] = -inf;
      }
      ops->causal_mask(scores);
      EXPECT_EQ(values(scores), want);
    }
  }
}

class Softmax : public OpsTest {
 protected:
  static std::vector<double> expected(const Tensor& x) {
    std::vector<double> y = values(x);
    const auto n = static_cast<std::ptrdiff_t>(x.cols());
    for (auto row = y.begin(); row != y.end(); row += n) {
      const double highest = *std::max_element(row, row + n);
      double sum = 0;
      for (auto v = row; v != row + n; ++v) sum += * v = std::exp(*v - highest);
      for (auto v = row; v != row + n; ++v) *v /= sum;
    }
    return y;
  }

  // By finite differences, and in place. forward(y, x), backward(dx, dy, y)
  template <class Forward, class Backward>
  void check_backward(const Shape& shape, Forward forward, Backward backward) {
    const Array x = f64(shape);
    const Array dy = f64(shape);
    const Array y = nans(shape);
    const auto loss = [&] {
      forward(y, x);
      return dot(y, dy);
    };
    loss();
    const Array dx = nans(shape);
    backward(dx, dy, y);
    const std::vector<double> want = values(dx);
    for (const Dtype d : floating_dtypes) {
      const Array in_place = copy_of(dy, d);
      backward(in_place, in_place, copy_of(y, d));
      expect_close(in_place, want, 4);
    }
    expect_gradient(x, dx, loss);
  }
};

TEST_F(Softmax, forward_apart_and_in_place) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t cols) {
    const Array x = f64({rows, cols}, 4);
    const std::vector<double> want = expected(x);
    const Array y = nans({rows, cols});
    ops->softmax(y, x);
    expect_close(y, want, 2, 0.1);
    ops->softmax(x, x);
    EXPECT_EQ(values(x), values(y));
  });
}

TEST_F(Softmax, of_masked_and_of_huge_scores) {
  for (const Dtype d : floating_dtypes) {
    const Array x = tensor({3, 3}, d, {-inf, 5, -inf, 30000, 30000, -30000, -30000, -30000, -inf});
    ops->softmax(x, x);
    EXPECT_EQ(values(x), (std::vector<double>{0, 1, 0, 0.5, 0.5, 0, 0.5, 0.5, 0}));
  }
}

// Masked scores are neither read nor kept: they may be NaN.
TEST_F(Softmax, masked_equals_scale_mask_and_softmax) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t context : odd_rows) {
      for (const bool causal : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(d) << " " << context << " " << causal);
        const ScoreOptions scores{.scale = 0.5, .causal = causal};
        const Shape shape{2, context, context};
        const Array x = random(shape, d, 4);
        const Array scaled = copy_of(x);
        ops->scale(scaled, 0.5);
        std::vector<double> poison = values(x);
        if (causal) {
          ops->causal_mask(scaled);
          for (std::int64_t i = 0; i < x.tensor().numel(); ++i) {
            const bool seen = i % context <= i / context % context;
            if (!seen) poison[static_cast<std::size_t>(i)] = std::nan("");
          }
          set(x, poison);
        }
        const Array y = poisoned(shape, d);
        ops->masked_softmax(y, x, scores);
        expect_close(y, expected(scaled), 2, 0.1);
        ops->masked_softmax(x, x, scores);
        EXPECT_EQ(values(x), values(y));
      }
    }
  }
}

TEST_F(Softmax, masked_backward_by_finite_differences_and_in_place) {
  for (const std::int64_t context : odd_rows) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(testing::Message() << context << " " << causal);
      const ScoreOptions scores{.scale = 0.5, .causal = causal};
      check_backward(
          {2, context, context},
          [&](const Array& y, const Array& x) { ops->masked_softmax(y, x, scores); },
          [&](const Array& dx, const Array& dy, const Array& y) {
            ops->masked_softmax_backward(dx, dy, y, scores);
          });
    }
  }
}

}  // namespace
}  // namespace paceline
