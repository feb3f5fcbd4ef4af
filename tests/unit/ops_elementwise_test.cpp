#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "cpu/vector_exp.h"
#include "tests/unit/constants.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

using Elementwise = OpsTest;

TEST_F(Elementwise, cast_rounds_any_dtype_to_any_other) {
  for (const Dtype from : floating_dtypes) {
    for (const Dtype to : floating_dtypes) {
      for (const std::int64_t n : {1, 3, 127, 129, 20001}) {
        SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to) << " " << n);
        const Array x = random({n}, from);
        const Array y = poisoned({n}, to);
        ops->cast(y, x);
        // set() of the helpers rounds element by element, so the bits must agree.
        EXPECT_EQ(values(y), values(copy_of(x, to)));
      }
    }
  }
}

TEST_F(Elementwise, cast_keeps_infinities_and_overflows_to_them) {
  const Array x = tensor({4}, Dtype::f32, {inf, -inf, 1e6, -1e6});
  const Array y = poisoned({4}, Dtype::f16);
  ops->cast(y, x);
  EXPECT_EQ(values(y), (std::vector<double>{inf, -inf, inf, -inf}));
  const Array n = tensor({1}, Dtype::f32, {quiet_nan});
  const Array z = tensor({1}, Dtype::bf16, {0});
  ops->cast(z, n);
  EXPECT_TRUE(std::isnan(values(z)[0]));
}

TEST_F(Elementwise, operations_on_integers_are_refused) {
  const Array i = integers({1}, {1});
  const Array x = random({1}, Dtype::f32);
  EXPECT_THROW(ops->cast(x, i), InternalError);
  EXPECT_THROW(ops->scale(i, 2), InternalError);
}

TEST_F(Elementwise, fill) {
  for (const Dtype d : floating_dtypes) {
    for (const std::int64_t n : {1, 129, 20001}) {
      const Array x = poisoned({n}, d);
      ops->fill(x, -1.5);
      EXPECT_EQ(values(x), std::vector<double>(static_cast<std::size_t>(n), -1.5));
    }
  }
  const Array i = integers({3}, {1, 2, 3});
  ops->fill(i, 7);
  EXPECT_EQ(
      std::vector<std::int32_t>(i.tensor().as<std::int32_t>(), i.tensor().as<std::int32_t>() + 3),
      (std::vector<std::int32_t>{7, 7, 7}));
}

TEST_F(Elementwise, fill_normal_rounds_the_streams_elements) {
  const Random random(3, 1);
  const TruncatedNormal normal(0.5, 1.5);
  const Array narrow = poisoned({1001}, Dtype::bf16);
  const Array wide = poisoned({1001}, Dtype::f64);
  for (const std::size_t first : {0, 1, 6, 1000}) {
    ops->fill_normal(narrow, random, normal, static_cast<std::int64_t>(first));
    ops->fill_normal(wide, random, normal, static_cast<std::int64_t>(first));
    for (std::size_t i = 0; i < 1001; ++i) {
      const std::size_t of_stream = first + i;
      const float want = normal(random.uniform4(of_stream / 4)[of_stream % 4]);
      ASSERT_EQ(values(wide)[i], want);
      ASSERT_NEAR(values(narrow)[i], want, std::abs(want) / 256);
    }
  }
}

TEST_F(Elementwise, add_of_mixed_dtypes_and_in_place) {
  for (const Dtype da : floating_dtypes) {
    for (const Dtype db : floating_dtypes) {
      for (const std::int64_t n : {1, 127, 20001}) {
        SCOPED_TRACE(testing::Message() << name_of(da) << " + " << name_of(db) << " " << n);
        const Array a = random({n}, da);
        const Array b = random({n}, db);
        std::vector<double> want = values(a);
        const std::vector<double> bv = values(b);
        for (std::size_t i = 0; i < want.size(); ++i) want[i] += bv[i];
        const Array y = poisoned({n}, Dtype::f64);
        ops->add(y, a, b);
        expect_close(y, want, da == Dtype::f64 || db == Dtype::f64 ? 1 : 1e6);
        ops->add(a, a, b);  // y is a
        expect_close(a, want);
      }
    }
  }
  const Array x = tensor({2}, Dtype::f32, {1, -2});
  ops->add(x, x, x);
  EXPECT_EQ(values(x), (std::vector<double>{2, -4}));
}

TEST_F(Elementwise, scale) {
  for (const Dtype d : floating_dtypes) {
    const Array x = random({129}, d);
    std::vector<double> want = values(x);
    for (double& v : want) v *= 0.3;
    ops->scale(x, 0.3);
    expect_close(x, want);
  }
}

TEST_F(Elementwise, vector_exp_is_within_two_units_in_the_last_place) {
  double worst = 0;
  // Every 1009th float of both signs.
  for (std::uint32_t bits = 0; bits < 0x7f800000U; bits += 1009) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      const auto x = std::bit_cast<float>(bits | sign);
      const double exact = std::exp(static_cast<double>(x));
      const float got = vector_exp(x);
      if (exact > std::numeric_limits<float>::max()) {
        ASSERT_EQ(got, std::numeric_limits<float>::infinity()) << x;
        continue;
      }
      const auto rounded = static_cast<float>(exact);
      const double ulp = rounded < std::numeric_limits<float>::min()
                             ? std::numeric_limits<float>::denorm_min()
                             : std::exp2(std::ilogb(rounded) - 23);
      worst = std::max(worst, std::abs(got - exact) / ulp);
    }
  }
  EXPECT_LT(worst, 2);
  EXPECT_EQ(vector_exp(-std::numeric_limits<float>::infinity()), 0.0F);
  EXPECT_EQ(vector_exp(std::numeric_limits<float>::infinity()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(vector_exp(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(vector_exp(-std::numeric_limits<float>::quiet_NaN())));
  EXPECT_EQ(vector_exp(0.0F), 1.0F);
}

using SwiGlu = OpsTest;

TEST_F(SwiGlu, large_inputs_do_not_overflow) {
  for (const Dtype d : {Dtype::f64, Dtype::f32}) {
    const Array x = tensor({1, 4}, d, {-1000, 1000, 2, 2});
    const Array z = poisoned({1, 2}, d);
    ops->swiglu(z, x);
    EXPECT_EQ(values(z), (std::vector<double>{0, 2000}));
    const Array dz = tensor({1, 2}, d, {1, 1});
    const Array dx = poisoned({1, 4}, d);
    ops->swiglu_backward(dx, dz, x);
    EXPECT_EQ(values(dx), (std::vector<double>{0, 2, 0, 1000}));
  }
}

TEST_F(SwiGlu, backward_by_finite_differences_and_in_place) {
  for_odd_shapes([&](std::int64_t rows, std::int64_t width) {
    const Array x = f64({rows, 2 * width});
    const Array dz = f64({rows, width});
    const Array z = nans({rows, width});
    const Array dx = nans({rows, 2 * width});
    ops->swiglu_backward(dx, dz, x);
    expect_gradient(x, dx, [&] {
      ops->swiglu(z, x);
      return dot(z, dz);
    });
    const std::vector<double> want = values(dx);
    ops->swiglu_backward(x, dz, x);
    expect_close(x, want, 8);
  });
}

using Embedding = OpsTest;

TEST_F(Embedding, forward) {
  constexpr std::int64_t vocabulary = 37;
  for (const Dtype to : floating_dtypes) {
    for (const Dtype from : floating_dtypes) {
      for_odd_shapes([&](std::int64_t rows, std::int64_t width) {
        const Array table = random({vocabulary, width}, from);
        const Array tokens = random_integers({rows}, vocabulary);
        const Array y = poisoned({rows, width}, to);
        ops->embedding(y, tokens, table);
        const std::vector<double> all = values(table);
        std::vector<double> want;
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto at = all.begin() + tokens.tensor().as<std::int32_t>()[r] * width;
          want.insert(want.end(), at, at + width);
        }
        expect_close(y, want);
      });
    }
  }
}

TEST_F(Embedding, backward_sums_the_rows_of_each_token) {
  constexpr std::int64_t vocabulary = 67;
  for (const Dtype d : floating_dtypes) {
    for (const bool accumulate : {false, true}) {
      SCOPED_TRACE(testing::Message() << name_of(d) << " " << accumulate);
      for_odd_shapes([&](std::int64_t rows, std::int64_t width) {
        const Array tokens = random_integers({rows}, vocabulary);
        const Array dy = random({rows, width}, d);
        const Array dtable = accumulate ? random({vocabulary, width}, Dtype::f32)
                                        : poisoned({vocabulary, width}, Dtype::f32);
        std::vector<double> want(static_cast<std::size_t>(vocabulary * width));
        if (accumulate) want = values(dtable);
        const std::vector<double> g = values(dy);
        for (std::int64_t i = 0; i < rows * width; ++i) {
          const std::int64_t v = tokens.tensor().as<std::int32_t>()[i / width];
          want[static_cast<std::size_t>(v * width + i % width)] += g[static_cast<std::size_t>(i)];
        }
        ops->embedding_backward(dtable, dy, tokens, accumulate);
        expect_close(dtable, want);
      });
    }
  }
}

TEST_F(Embedding, refuses_tokens_outside_the_vocabulary) {
  const Array table = random({5, 3}, Dtype::f32);
  const Array y = random({1, 3}, Dtype::f32);
  for (const std::int32_t token : {-1, 5}) {
    EXPECT_THROW(ops->embedding(y, integers({1}, {token}), table), InternalError);
    EXPECT_THROW(ops->embedding_backward(table, y, integers({1}, {token}), false), InternalError);
  }
}

}  // namespace
}  // namespace paceline
