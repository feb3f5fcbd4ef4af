#pragma once
// How close computed values must be to an oracle's: each element within a bar of its own, and all
// together within a relative L2 distance. The distance does not see one wrong element among many;
// the bars do not see that every element is a little off.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/precision.h"

namespace paceline {

// An element is right if |got - want| <= absolute + relative |want|.
struct Bar {
  double absolute = 0;
  double relative = 0;
};

// How an output comes about, which decides its bar.
struct Computed {
  bool arithmetic = true;  // false: copied, and rounded to the output's dtype
  double terms = 0;        // of both signs that are added up; 0: there is no cancellation
  double size = 1;         // of a term
  bool products = false;   // the terms are a GEMM's
};
inline constexpr Computed copied{.arithmetic = false};
// Products, quotients, exponentials, roots, and sums of one sign.
inline constexpr Computed without_cancellation{};
inline Computed sum_of(std::int64_t terms, double size = 1) {
  return {.terms = static_cast<double>(terms), .size = size};
}
inline Computed gemm_over(std::int64_t terms) {
  return {.terms = static_cast<double>(terms), .products = true};
}

// Half the distance between the smallest numbers of a dtype: results below its normal range are
// rounded to within this much.
inline double half_smallest(Dtype d) {
  switch (d) {
    case Dtype::f64:
    case Dtype::f32: return 0;  // far below every bar
    case Dtype::bf16: return 0x1p-134;
    case Dtype::f16: return 0x1p-25;
    case Dtype::i32: return 0;
  }
  throw_unnamed(static_cast<std::size_t>(d));
}

// With u the unit roundoff of the dtype that an output is stored in:
//
//   |got - want| <= u |want| + half_smallest                            one rounding
//                 + 128 v |want| + 128 v sqrt(terms) size               arithmetic
//
// v = 2^-24 is float32's, in which devices compute; the result of float64 tensors is held to it
// too. Why 128: without cancellation the longest chain is cross-entropy's exp(x - logsumexp), where
// 17 v come from the exponent, 4 v from the exponential and up to 35 v from logsumexp. A sum of n
// terms of random sign, added in chains of length L, is off by size v sqrt(n L / 6) in standard
// deviation; at six of them, 128 serves chains of 2700. Tensor cores cut partial sums off instead
// of rounding them: 2 v of the sum for every 16 terms of k, 32 v sqrt(k) at k = 256.
//
// Products of tf32 have operands that are off by w = 2^-11, or by 2 w where they are cut off:
// 4 w |want| + 8 w sqrt(terms) size more, of which a standard deviation is 0.8 w sqrt(terms) size.
inline Bar bar_of(const Computed& how, Dtype stored, GemmMath gemm) {
  Bar bar{.absolute = half_smallest(stored), .relative = unit_roundoff(stored)};
  if (!how.arithmetic) return bar;
  const double v = 128 * unit_roundoff(Dtype::f32);
  const double terms = std::sqrt(how.terms) * how.size;
  bar.relative += v;
  bar.absolute += v * terms;
  if (!how.products) return bar;
  switch (gemm) {
    case GemmMath::exact: return bar;
    case GemmMath::tf32:
      bar.relative += 4 * 0x1p-11;
      bar.absolute += 8 * 0x1p-11 * terms;
      return bar;
  }
  throw InternalError("an arithmetic of GEMMs without a bar");
}

// Of the relative L2 distance: two roundings to the dtype, and 1e-5 for what float32 arithmetic
// comes to over all elements; of products of tf32 1e-3.
inline double distance_bar(const Computed& how, Dtype stored, GemmMath gemm) {
  const double bar = std::max(2 * unit_roundoff(stored), 1e-5);
  if (!how.products) return bar;
  switch (gemm) {
    case GemmMath::exact: return bar;
    case GemmMath::tf32: return std::max(bar, 1e-3);
  }
  throw InternalError("an arithmetic of GEMMs without a bar");
}

// ||got - want|| / max(||want||, scale sqrt(n)); infinities must stand in the same places, and
// nothing may be NaN.
inline double distance(const std::vector<double>& got, const std::vector<double>& want,
                       double scale) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isinf(want[i]) && got[i] == want[i]) continue;
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  const double least = scale * scale * static_cast<double>(got.size());
  return std::sqrt(error / std::max({norm, least, 1e-300}));
}

// The elements of `got` that are wrong, and the one that is furthest beyond its bar or nearest to
// it.
struct Deviation {
  std::size_t wrong = 0;
  std::size_t where = 0;
  double share = 0;  // of its bar; infinite where no bar allows it
};

// bar(i) is that of element i. An infinity is right only where the same one is wanted, NaN never.
template <class BarOfElement>
Deviation deviation(const std::vector<double>& got, const std::vector<double>& want,
                    BarOfElement bar) {
  if (got.size() != want.size()) throw InternalError("vectors of different lengths are compared");
  Deviation d;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    const Bar b = bar(i);
    const double error = std::abs(got[i] - want[i]);
    const double allowed = b.absolute + b.relative * std::abs(want[i]);
    const bool within = std::isfinite(want[i]) && error <= allowed;
    d.wrong += within ? 0 : 1;
    const double share = std::isfinite(error) && allowed > 0
                             ? error / allowed
                             : std::numeric_limits<double>::infinity();
    if (share > d.share) {
      d.share = share;
      d.where = i;
    }
  }
  return d;
}

template <class BarOfElement>
::testing::AssertionResult every_element_is_right(const std::vector<double>& got,
                                                  const std::vector<double>& want,
                                                  BarOfElement bar) {
  const Deviation d = deviation(got, want, bar);
  if (d.wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << d.wrong << " of " << got.size() << " elements are wrong; element " << d.where << " is "
         << got[d.where] << " instead of " << want[d.where] << ", " << d.share
         << " times as far off as its bar allows";
}

}  // namespace paceline
