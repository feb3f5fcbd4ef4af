// Flash attention on the CPU against the definition of attention in float64: head dimensions,
// masks, odd lengths and dtypes. ops_composites_test.cpp has packed heads and finite differences.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/oracle/flash_tolerances.h"
#include "tests/unit/constants.h"
#include "tests/unit/ops_helpers.h"

namespace paceline {
namespace {

using Values = std::vector<double>;

// Contiguous heads [B, T, H, d]; logsumexp [B, H, T].
struct Result {
  Values o, logsumexp, dq, dk, dv;
};

// The definition, row by row with complete rows of scores.
Result plain_attention(const AttentionShape& s, const Values& q, const Values& k, const Values& v,
                       const Values& d_o) {
  const std::size_t all = q.size();
  Result r{Values(all), {}, Values(all), Values(all), Values(all)};
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  const auto at = [&](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t j) {
    return static_cast<std::size_t>(((b * s.context + t) * s.heads + h) * s.head_dim + j);
  };
  const auto T = static_cast<std::size_t>(s.context);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.context; ++i) {
        const auto dot = [&](const Values& x, const Values& y, std::int64_t row) {
          return std::inner_product(
              x.begin() + static_cast<std::ptrdiff_t>(at(b, i, h, 0)),
              x.begin() + static_cast<std::ptrdiff_t>(at(b, i, h, 0)) + s.head_dim,
              y.begin() + static_cast<std::ptrdiff_t>(at(b, row, h, 0)), 0.0);
        };
        Values p(T);
        for (std::size_t j = 0; j < T; ++j) {
          const auto key = static_cast<std::int64_t>(j);
          p[j] = s.causal && key > i ? -inf : scale * dot(q, k, key);
        }
        const double highest = *std::max_element(p.begin(), p.end());
        double sum = 0;
        for (double& x : p) sum += x = std::exp(x - highest);
        for (double& x : p) x /= sum;
        r.logsumexp.push_back(highest + std::log(sum));
        Values dp(T);
        double delta = 0;
        for (std::size_t j = 0; j < T; ++j) {
          dp[j] = dot(d_o, v, static_cast<std::int64_t>(j));
          delta += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < T; ++j) {
          const auto key = static_cast<std::int64_t>(j);
          const double ds = scale * p[j] * (dp[j] - delta);
          for (std::int64_t c = 0; c < s.head_dim; ++c) {
            r.o[at(b, i, h, c)] += p[j] * v[at(b, key, h, c)];
            r.dq[at(b, i, h, c)] += ds * k[at(b, key, h, c)];
            r.dk[at(b, key, h, c)] += ds * q[at(b, i, h, c)];
            r.dv[at(b, key, h, c)] += p[j] * d_o[at(b, i, h, c)];
          }
        }
      }
    }
  }
  return r;
}

class Flash : public OpsTest {
 protected:
  struct Inputs {
    Array q, k, v, d_o;  // [B, T, H, d]
  };

  Inputs inputs(const AttentionShape& s, Dtype d) {
    const Shape shape{s.batch, s.context, s.heads, s.head_dim};
    Array q = random(shape, d);
    Array k = random(shape, d);
    Array v = random(shape, d);
    return {q, k, v, random(shape, d)};
  }
  static Result expected(const AttentionShape& s, const Inputs& in) {
    return plain_attention(s, values(in.q), values(in.k), values(in.v), values(in.d_o));
  }
  static ScoreOptions scores(const AttentionShape& s) {
    return {.scale = 1 / std::sqrt(static_cast<double>(s.head_dim)), .causal = s.causal};
  }
  std::unique_ptr<Ops> flash_ops(const char* precision, Fp32Attention fp32) {
    return device.make_ops({.precision = precision_named(precision), .fp32_attention = fp32});
  }

  // Forward and backward into poisoned outputs.
  Result run(Ops& o, const AttentionShape& s, const Inputs& in) {
    const Dtype d = in.q.dtype();
    const Shape& shape = in.q.shape();
    const Array y = poisoned(shape, d);
    const Array logsumexp = poisoned({s.batch, s.heads, s.context}, o.precision().statistics);
    const Array dq = poisoned(shape, d);
    const Array dk = poisoned(shape, d);
    const Array dv = poisoned(shape, d);
    o.flash_attention(Heads(y), logsumexp, Heads(in.q), Heads(in.k), Heads(in.v), scores(s));
    o.flash_attention_backward(Heads(dq), Heads(dk), Heads(dv), Heads(in.d_o), Heads(in.q),
                               Heads(in.k), Heads(in.v), Heads(y), logsumexp, scores(s));
    return {values(y), values(logsumexp), values(dq), values(dk), values(dv)};
  }

  // ||got - want|| / max(||want||, the norm of n random terms of weight 1 / T), n: elements.
  static double error(const Values& got, const Values& want, std::int64_t context) {
    return distance(got, want, 1 / std::sqrt(static_cast<double>(context)));
  }
  static void expect_within(const Result& got, const Result& want, double tolerance,
                            double logsumexp_tolerance, std::int64_t context) {
    EXPECT_LT(error(got.o, want.o, context), tolerance) << "O";
    EXPECT_LT(error(got.dq, want.dq, context), tolerance) << "dQ";
    EXPECT_LT(error(got.dk, want.dk, context), tolerance) << "dK";
    EXPECT_LT(error(got.dv, want.dv, context), tolerance) << "dV";
    for (std::size_t i = 0; i < want.logsumexp.size(); ++i) {
      ASSERT_NEAR(got.logsumexp[i], want.logsumexp[i], logsumexp_tolerance);
    }
  }
};

// The comparison of GPU results, with half of its tolerances, which allow for other orders of
// summation.
void expect_elements(const Result& got, const Result& want, std::int64_t head_dim,
                     double roundoff) {
  const FlashTolerances by_o(want.o, head_dim, roundoff / 2);
  const FlashTolerances by_dv(want.dv, head_dim, roundoff / 2);
  EXPECT_TRUE(every_element_is_right(got.o, want.o, by_o)) << "O";
  EXPECT_TRUE(every_element_is_right(got.dq, want.dq, by_o)) << "dQ";
  EXPECT_TRUE(every_element_is_right(got.dk, want.dk, by_dv)) << "dK";
  EXPECT_TRUE(every_element_is_right(got.dv, want.dv, by_dv)) << "dV";
}

struct FlashArithmetic {
  const char* precision;
  Fp32Attention fp32;
  double tolerance;
  double logsumexp_tolerance;
};
constexpr std::array<FlashArithmetic, 6> flash_arithmetics = {
    {{"fp64", Fp32Attention::bf16x3, 1e-12, 1e-12},
     {"fp32", Fp32Attention::exact, 2e-6, 1e-5},
     {"fp32", Fp32Attention::bf16x3, 2e-5, 5e-5},
     {"fp32", Fp32Attention::tf32, 1e-3, 2e-3},
     {"bf16", Fp32Attention::bf16x3, 5e-3, 1e-5},
     {"fp16", Fp32Attention::bf16x3, 1e-3, 1e-5}}};

TEST_F(Flash, every_head_dimension_mask_length_and_arithmetic) {
  for (const std::int64_t head_dim : {16, 32, 64, 80, 128}) {
    for (const std::int64_t context : {1, 17, 128, 129}) {
      for (const bool causal : {false, true}) {
        for (const FlashArithmetic& a : flash_arithmetics) {
          const AttentionShape s{1, context, 2, head_dim, causal};
          SCOPED_TRACE(testing::Message() << a.precision << " " << static_cast<int>(a.fp32) << " d "
                                          << head_dim << " T " << context << " " << causal);
          const auto o = flash_ops(a.precision, a.fp32);
          const Inputs in = inputs(s, o->precision().compute);
          const Result got = run(*o, s, in);
          const Result want = expected(s, in);
          expect_within(got, want, a.tolerance, a.logsumexp_tolerance, context);
          const Dtype compute = o->precision().compute;
          if (compute == Dtype::f64) continue;
          expect_elements(got, want, head_dim, flash_roundoff(compute, a.fp32));
        }
      }
    }
  }
}

// The tolerances above would also pass if a mode rounded less than its name says.
TEST_F(Flash, arithmetics_of_float32_differ_as_they_should) {
  const AttentionShape s{1, 128, 1, 64, true};
  const Inputs in = inputs(s, Dtype::f32);
  const Result want = expected(s, in);
  const auto error_of_o = [&](Fp32Attention fp32) {
    return error(run(*flash_ops("fp32", fp32), s, in).o, want.o, s.context);
  };
  EXPECT_LT(error_of_o(Fp32Attention::exact), 5e-7);
  EXPECT_GT(error_of_o(Fp32Attention::bf16x3), 1e-6);
  EXPECT_GT(error_of_o(Fp32Attention::tf32), 1e-4);
}

TEST_F(Flash, scores_that_would_overflow_an_exponential) {
  const AttentionShape s{1, 130, 1, 16, true};
  Inputs in = inputs(s, Dtype::f32);
  in.q = random(in.q.shape(), Dtype::f32, 100);
  const auto o = flash_ops("fp32", Fp32Attention::exact);
  expect_within(run(*o, s, in), expected(s, in), 1e-3, 1e-3, s.context);
}

TEST_F(Flash, refuses_mismatched_shapes_and_dtypes) {
  const AttentionShape s{1, 4, 2, 8, true};
  const Inputs in = inputs(s, Dtype::f32);
  const Array y = poisoned(in.q.shape(), Dtype::f32);
  const Array logsumexp = poisoned({1, 2, 4}, Dtype::f32);
  const auto forward = [&](const Tensor& o, const Tensor& l) {
    ops->flash_attention(Heads(o), l, Heads(in.q), Heads(in.k), Heads(in.v), scores(s));
  };
  EXPECT_NO_THROW(forward(y, logsumexp));
  EXPECT_THROW(forward(poisoned({1, 4, 2, 7}, Dtype::f32), logsumexp), InternalError);
  EXPECT_THROW(forward(poisoned(in.q.shape(), Dtype::bf16), logsumexp), InternalError);
  EXPECT_THROW(forward(y, poisoned({1, 4, 2}, Dtype::f32)), InternalError);
  EXPECT_THROW(forward(y, poisoned({1, 2, 4}, Dtype::f64)), InternalError);
}

}  // namespace
}  // namespace paceline
