// Sums and norms with every operation rounded, on the CPU: against known values, theoretical bounds
// and, for norms, float64.

#include "core/summation.h"

#include <cmath>
#include <limits>

#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

constexpr std::array<Summation, 4> orders = {Summation::sequential, Summation::pairwise,
                                             Summation::blocked, Summation::compensated};

class Rounded : public OpsTest {
 protected:
  [[nodiscard]] double total(const Array& x, Dtype dtype, Summation how) {
    const Array sum = poisoned({1}, dtype);
    toys->sum(sum, x, how);
    return values(sum).front();
  }
  [[nodiscard]] Array constant(double value, std::int64_t n, Dtype dtype) {
    return tensor({n}, dtype, std::vector<double>(static_cast<std::size_t>(n), value));
  }
};

// The course's exercise: 0.01 a thousand times.
TEST_F(Rounded, the_exercise_gives_what_pytorch_gives) {
  const auto sequential = [&](Dtype addend, Dtype sum) {
    return total(constant(0.01, 1000, addend), sum, Summation::sequential);
  };
  constexpr double half_digit = 5e-5;
  EXPECT_NEAR(sequential(Dtype::f32, Dtype::f32), 10.0001, half_digit);
  EXPECT_NEAR(sequential(Dtype::f16, Dtype::f16), 9.9531, half_digit);
  EXPECT_NEAR(sequential(Dtype::f16, Dtype::f32), 10.0021, half_digit);
  EXPECT_EQ(sequential(Dtype::bf16, Dtype::bf16), 4.0);
}

TEST_F(Rounded, orders_add_up_in_their_order) {
  // In bfloat16 256 + 1 = 256, so that the result shows the order of additions.
  std::vector<double> numbers(64, 1.0);
  numbers[0] = 256;
  const Array x = tensor({64}, Dtype::bf16, numbers);
  EXPECT_EQ(total(x, Dtype::bf16, Summation::sequential), 256);
  // A single 1 added to 256 is lost; sums of 2, 4, 8, 16 and 32 ones are not.
  EXPECT_EQ(total(x, Dtype::bf16, Summation::pairwise), 256 + 2 + 4 + 8 + 16 + 32);
  EXPECT_EQ(total(x, Dtype::bf16, Summation::blocked), 256 + 32);
  EXPECT_EQ(total(x, Dtype::bf16, Summation::compensated), 256 + 64);  // 319 is between two
}

TEST_F(Rounded, any_count_is_added_up_once) {
  for (const Summation how : orders) {
    for (const std::int64_t n : {1, 2, 3, 31, 32, 33, 63, 64, 65, 1000}) {
      EXPECT_EQ(total(constant(1, n, Dtype::f32), Dtype::f32, how), n) << name_of(how);
    }
  }
}

TEST_F(Rounded, errors_stay_within_the_bounds) {
  for (const Dtype dtype : floating_dtypes) {
    for (const std::int64_t n : {2, 33, 1000, 4099}) {
      const Array x = random({n}, dtype);
      double exact = 0;
      double absolute = 0;
      for (const double v : values(x)) {
        exact += v;
        absolute += std::abs(v);
      }
      const double u = unit_roundoff(dtype);
      for (const Summation how : orders) {
        // The bound of compensated sums ignores terms of order n u^2.
        const double more = how == Summation::compensated ? static_cast<double>(n) * u * u : 0;
        const double bound = (summation_bound(how, n, u) + more) * absolute;
        const double rounding_of_exact = 1e-13 * absolute;
        EXPECT_LE(std::abs(total(x, dtype, how) - exact), bound + rounding_of_exact)
            << name_of(how) << " " << name_of(dtype) << " " << n;
      }
    }
  }
}

TEST_F(Rounded, a_sum_beyond_the_largest_number_is_infinite) {
  EXPECT_EQ(total(constant(60000, 2, Dtype::f16), Dtype::f16, Summation::sequential),
            std::numeric_limits<double>::infinity());
}

TEST_F(Rounded, bounds_are_those_of_theory) {
  constexpr double u = 0x1p-11;
  EXPECT_EQ(summation_bound(Summation::sequential, 1000, u), 999 * u);
  EXPECT_EQ(summation_bound(Summation::pairwise, 1000, u), 10 * u);
  EXPECT_EQ(summation_bound(Summation::pairwise, 1024, u), 10 * u);
  EXPECT_EQ(summation_bound(Summation::blocked, 1000, u), (32 + 32 - 2) * u);
  EXPECT_EQ(summation_bound(Summation::blocked, 8, u), 7 * u);
  EXPECT_EQ(summation_bound(Summation::compensated, 1000, u), 2 * u);
}

// In float64 rounding is negligible, which checks the formula; half types have an error of a few
// roundings.
TEST_F(Rounded, norms_are_norms) {
  for (const Dtype dtype : floating_dtypes) {
    for (const NormKind kind : {NormKind::layer_norm, NormKind::rms_norm}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << name_of(kind));
      constexpr std::int64_t cols = 131;
      const Array x = random({3, cols}, dtype);
      const Array y = poisoned({3, cols}, dtype);
      toys->rounded_norm(y, x, kind, 1e-5);
      const std::vector<double> in = values(x);
      const std::vector<double> got = values(y);
      for (std::size_t first = 0; first < in.size(); first += cols) {
        const std::span row(in.data() + first, cols);
        double mean = 0;
        double squares = 0;
        for (const double v : row) mean += v / cols;
        if (kind == NormKind::rms_norm) mean = 0;
        for (const double v : row) squares += (v - mean) * (v - mean) / cols;
        for (std::size_t j = 0; j < cols; ++j) {
          const double want = (row[j] - mean) / std::sqrt(squares + 1e-5);
          EXPECT_NEAR(got[first + j], want, 8 * unit_roundoff(dtype) * (1 + std::abs(want)));
        }
      }
    }
  }
}

// 300^2 overflows float16, not bfloat16.
TEST_F(Rounded, a_norm_breaks_where_a_square_overflows) {
  const auto first = [&](Dtype dtype) {
    const Array x = tensor({1, 2}, dtype, {300, -300});
    const Array y = poisoned({1, 2}, dtype);
    toys->rounded_norm(y, x, NormKind::layer_norm, 1e-5);
    return values(y).front();
  };
  EXPECT_EQ(first(Dtype::f16), 0);
  EXPECT_NEAR(first(Dtype::bf16), 1, 0x1p-7);
}

}  // namespace
}  // namespace paceline
