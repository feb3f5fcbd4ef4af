#pragma once
// How close computed values must be to the oracle's: each element within its own tolerance, and the
// whole tensor within a relative L2 distance. The distance misses one wrong element among many; the
// tolerances miss a small error in every element.

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

// An element is correct if |got - want| <= absolute + relative |want|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// How an output is computed, which determines its tolerance.
struct Computed {
  bool arithmetic = true;  // false: only copied or rounded to the output's dtype
  double terms = 0;        // number of summed terms of both signs; 0: no cancellation
  double size = 1;         // magnitude of a term
  bool products = false;   // the terms are products in a GEMM
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

// Half the spacing of a dtype's subnormal numbers: the rounding error of results below its normal
// range.
inline double half_smallest(Dtype d) {
  switch (d) {
    case Dtype::f64:
    case Dtype::f32: return 0;  // negligible against every tolerance
    case Dtype::bf16: return 0x1p-134;
    case Dtype::f16: return 0x1p-25;
    case Dtype::i32: return 0;
  }
  throw_unnamed(static_cast<std::size_t>(d));
}

// The tolerance, with u the unit roundoff of the dtype in which an output is stored:
//
//   |got - want| <= u |want| + half_smallest                            one rounding
//                 + 128 v |want| + 128 v sqrt(terms) size               arithmetic
//
// v = 2^-24 is the unit roundoff of float32, in which devices compute; float64 tensors are held to
// the same tolerance. Why 128: without cancellation the longest chain is exp(x - logsumexp) in the
// cross-entropy, with an error of 17 v from the exponent, 4 v from the exponential and up to 35 v
// from logsumexp. A sum of n terms of random sign, added in chains of length L, has an error with
// standard deviation size v sqrt(n L / 6); at six standard deviations, 128 suffices for chains of
// 2700. Tensor cores truncate partial sums instead of rounding them: 2 v of the sum for every 16
// terms of k, which is 32 v sqrt(k) at k = 256.
//
// tf32 products have operands with a relative error of w = 2^-11 (rounded) or 2 w (truncated). They
// add 4 w |want| + 8 w sqrt(terms) size to the tolerance; a standard deviation of that error is
// 0.8 w sqrt(terms) size.
inline Tolerance tolerance_of(const Computed& how, Dtype stored, GemmMath gemm) {
  Tolerance tolerance{.absolute = half_smallest(stored), .relative = unit_roundoff(stored)};
  if (!how.arithmetic) return tolerance;
  const double v = 128 * unit_roundoff(Dtype::f32);
  const double terms = std::sqrt(how.terms) * how.size;
  tolerance.relative += v;
  tolerance.absolute += v * terms;
  if (!how.products) return tolerance;
  switch (gemm) {
    case GemmMath::exact: return tolerance;
    case GemmMath::tf32:
      tolerance.relative += 4 * 0x1p-11;
      tolerance.absolute += 8 * 0x1p-11 * terms;
      return tolerance;
  }
  throw InternalError("an arithmetic of GEMMs without a tolerance");
}

// The tolerance of the relative L2 distance: the larger of two roundings to the dtype and of 1e-5
// for float32 arithmetic; at least 1e-3 for tf32 products.
inline double distance_tolerance(const Computed& how, Dtype stored, GemmMath gemm) {
  const double tolerance = std::max(2 * unit_roundoff(stored), 1e-5);
  if (!how.products) return tolerance;
  switch (gemm) {
    case GemmMath::exact: return tolerance;
    case GemmMath::tf32: return std::max(tolerance, 1e-3);
  }
  throw InternalError("an arithmetic of GEMMs without a tolerance");
}

// ||got - want|| / max(||want||, scale sqrt(n)). Equal infinities in the same element are ignored;
// other infinities and NaNs make the distance infinite or NaN.
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

// How far `got` deviates: the number of wrong elements, and the element with the largest error
// relative to its tolerance.
struct Deviation {
  std::size_t wrong = 0;
  std::size_t where = 0;  // the element with the largest error relative to its tolerance
  double share =
      0;  // that error over its tolerance; infinite if the tolerance is 0 or the error not finite
};

// tolerance(i) is the tolerance of element i. An infinity is correct only if the same infinity is
// wanted; NaN is never correct.
template <class ToleranceOfElement>
Deviation deviation(const std::vector<double>& got, const std::vector<double>& want,
                    ToleranceOfElement tolerance) {
  if (got.size() != want.size()) throw InternalError("vectors of different lengths are compared");
  Deviation d;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i]) continue;
    const Tolerance b = tolerance(i);
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

template <class ToleranceOfElement>
::testing::AssertionResult every_element_is_right(const std::vector<double>& got,
                                                  const std::vector<double>& want,
                                                  ToleranceOfElement tolerance) {
  const Deviation d = deviation(got, want, tolerance);
  if (d.wrong == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << d.wrong << " of " << got.size() << " elements are wrong; element " << d.where << " is "
         << got[d.where] << " instead of " << want[d.where] << ", " << d.share
         << " times as far off as its tolerance allows";
}

}  // namespace paceline
