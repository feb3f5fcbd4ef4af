// Errors that the oracle's comparison detects, in particular those that the distance alone misses.

#include "tests/oracle/closeness.h"

#include "core/random.h"
#include "tests/oracle/flash_tolerances.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

constexpr std::size_t element_count = 100'003;
constexpr std::array<Dtype, 3> dtypes = {Dtype::f32, Dtype::bf16, Dtype::f16};

class Closeness : public ::testing::Test {
 protected:
  Closeness() {
    std::vector<float> drawn(element_count);
    Random(1, 0).fill_normal(drawn);
    for (std::size_t i = 0; i < element_count; ++i) {
      want[i] = drawn[i];
      if (std::abs(want[i]) < std::abs(want[small]) && std::abs(want[i]) > 0.02) small = i;
    }
  }
  // `want` rounded to the dtype, as a device would return it.
  [[nodiscard]] std::vector<double> rounded(Dtype dtype) const {
    std::vector<double> got(element_count);
    dispatch_floating(dtype, [&]<class T>() {
      for (std::size_t i = 0; i < element_count; ++i) {
        got[i] =
            static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(want[i]))));
      }
    });
    return got;
  }
  // Sets element i of a correct result to x: the distance must not detect it, the tolerance must.
  void expect_found_by_its_bar_alone(Dtype dtype, const Computed& how, std::size_t i, double x) {
    std::vector<double> got = rounded(dtype);
    const Tolerance tolerance = tolerance_of(how, dtype, GemmMath::exact);
    const auto tolerance_of_element = [&](std::size_t) { return tolerance; };
    ASSERT_TRUE(every_element_is_right(got, want, tolerance_of_element));
    got[i] = x;
    EXPECT_LT(distance(got, want, 0), distance_tolerance(how, dtype, GemmMath::exact)) << x;
    const Deviation found = deviation(got, want, tolerance_of_element);
    EXPECT_EQ(found.wrong, 1U) << x;
    EXPECT_EQ(found.where, i) << x;
    EXPECT_FALSE(every_element_is_right(got, want, tolerance_of_element)) << x;
  }

  std::vector<double> want = std::vector<double>(element_count);
  std::size_t small = 0;  // index of the element with the smallest magnitude above 0.02
};

TEST_F(Closeness, one_wrong_element_in_100003_is_found_by_its_bar_alone) {
  for (const Dtype dtype : dtypes) {
    SCOPED_TRACE(name_of(dtype));
    for (const Computed& how : {copied, without_cancellation, sum_of(1)}) {
      // The error: four times a rounding to the dtype plus four times the tolerance of float32
      // arithmetic.
      const double off = 4 * (unit_roundoff(dtype) + 256 * unit_roundoff(Dtype::f32));
      for (const std::size_t i : {std::size_t{0}, element_count / 2, element_count - 1}) {
        const double x = want[i] + (std::abs(want[i]) + 1) * off / 2;
        expect_found_by_its_bar_alone(dtype, how, i, x);
      }
    }
  }
}

TEST_F(Closeness, a_small_element_of_the_wrong_sign_is_found_by_its_bar_alone) {
  ASSERT_LT(std::abs(want[small]), 0.021);
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const Computed& how : {copied, sum_of(1), sum_of(768)}) {
      expect_found_by_its_bar_alone(dtype, how, small, -want[small]);
    }
  }
}

TEST_F(Closeness, neither_nan_nor_infinity_is_ever_close) {
  for (const Dtype dtype : dtypes) {
    const Tolerance tolerance = tolerance_of(sum_of(1'000'000, 1e6), dtype, GemmMath::tf32);
    const auto tolerance_of_element = [&](std::size_t) { return tolerance; };
    for (const double bad : {quiet_nan, inf, -inf}) {
      std::vector<double> got = rounded(dtype);
      got[17] = bad;
      EXPECT_EQ(deviation(got, want, tolerance_of_element).wrong, 1U) << bad;
      EXPECT_EQ(deviation(got, want, tolerance_of_element).where, 17U) << bad;
      EXPECT_FALSE(distance(got, want, 0) < 1) << bad;
      // A finite number is wrong if NaN or an infinity is wanted; NaN is wrong even if NaN is
      // wanted.
      EXPECT_EQ(deviation({1}, {bad}, tolerance_of_element).wrong, 1U) << bad;
    }
    EXPECT_EQ(deviation({quiet_nan}, {quiet_nan}, tolerance_of_element).wrong, 1U);
    EXPECT_EQ(deviation({inf}, {-inf}, tolerance_of_element).wrong, 1U);
    EXPECT_EQ(deviation({inf}, {inf}, tolerance_of_element).wrong, 0U);
  }
}

TEST_F(Closeness, an_empty_bar_allows_no_error_and_lengths_must_agree) {
  const auto nothing_allowed = [](std::size_t) { return Tolerance{}; };
  EXPECT_EQ(deviation({0, 1e-30}, {0, 0}, nothing_allowed).wrong, 1U);
  EXPECT_THROW((void)deviation({0, 0}, {0}, nothing_allowed), InternalError);
}

TEST_F(Closeness, bars_grow_with_the_terms_and_with_tf32) {
  const auto absolute = [](const Computed& how, GemmMath gemm) {
    return tolerance_of(how, Dtype::f32, gemm).absolute;
  };
  EXPECT_EQ(absolute(copied, GemmMath::exact), 0);
  EXPECT_EQ(absolute(without_cancellation, GemmMath::exact), 0);
  EXPECT_DOUBLE_EQ(absolute(sum_of(1), GemmMath::exact), 0x1p-17);
  EXPECT_DOUBLE_EQ(absolute(sum_of(400, 3), GemmMath::exact), 60 * 0x1p-17);
  EXPECT_EQ(absolute(sum_of(400), GemmMath::tf32), absolute(sum_of(400), GemmMath::exact));
  EXPECT_DOUBLE_EQ(absolute(gemm_over(400), GemmMath::tf32), 20 * (0x1p-17 + 0x1p-8));
}

// An error of a tenth of the usual magnitude in a row is detected, also in a row whose elements are
// a hundred times smaller than those of other rows.
TEST_F(Closeness, each_row_of_flash_attention_has_a_bar_of_its_own) {
  constexpr std::size_t head_dim = 16;
  std::vector<double> rows(want.begin(), want.begin() + 64 * head_dim);
  for (std::size_t i = 32 * head_dim; i < rows.size(); ++i) rows[i] /= 100;
  const FlashTolerances tolerances(rows, head_dim,
                                   flash_roundoff(Dtype::bf16, Fp32Attention::bf16x3));
  for (const std::size_t i : {std::size_t{5}, rows.size() - 5}) {
    std::vector<double> got = rows;
    EXPECT_EQ(deviation(got, rows, tolerances).wrong, 0U);
    const double usual = i < 32 * head_dim ? 1 : 0.01;
    got[i] += usual * 0.15 + std::abs(rows[i]) * 0.03;
    EXPECT_EQ(deviation(got, rows, tolerances).wrong, 1U) << i;
  }
}

}  // namespace
}  // namespace paceline
