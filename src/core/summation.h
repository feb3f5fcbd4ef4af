#pragma once
// Sums in a fixed order of additions, each rounded to the dtype of the sum; the same on every
// device. Error bounds: Higham, "The accuracy of floating point summation" (SIAM J. Sci.
// Comput. 14, 1993); u is the unit roundoff of the sum's dtype.

#include <cmath>
#include <cstdint>

#include "core/dtype.h"
#include "core/host_device.h"

namespace paceline {

enum class Summation : std::uint8_t {
  sequential,   // ((x0 + x1) + x2) + ...
  pairwise,     // the halves of a binary tree
  blocked,      // blocks of 32 sequentially, then the blocks' sums sequentially
  compensated,  // Kahan: sequential, each addition corrected by the error of the last
};
constexpr auto names_of(Summation) {
  return names("sequential", "pairwise", "blocked", "compensated");
}

inline constexpr std::int64_t summation_block = 32;

// For n numbers, |computed - exact| <= summation_bound() * sum of |x|, to first order in u.
[[nodiscard]] inline double summation_bound(Summation how, std::int64_t n, double u) {
  const auto count = static_cast<double>(n);
  switch (how) {
    case Summation::sequential: return (count - 1) * u;
    case Summation::pairwise: return std::ceil(std::log2(count)) * u;
    case Summation::blocked: {
      const std::int64_t block = n < summation_block ? n : summation_block;
      const std::int64_t blocks = (n + summation_block - 1) / summation_block;
      return static_cast<double>(block + blocks - 2) * u;
    }
    case Summation::compensated: return 2 * u;
  }
  throw_unnamed(static_cast<std::size_t>(how));
}

// C: float or double; precise enough that rounding the sum of two rounded numbers gives the nearest
// number. x(i): element i. round(y): the nearest number of the sum's dtype.
template <class C, class Element, class Round>
HOST_DEVICE C sequential_sum(std::int64_t begin, std::int64_t end, Element x, Round round) {
  C sum = 0;
  for (std::int64_t i = begin; i < end; ++i) sum = round(sum + x(i));
  return sum;
}

// partial[k] holds a sum of 2^k elements until the next sum of 2^k elements is complete, like the
// bits of a binary counter.
template <class C, class Element, class Round>
HOST_DEVICE C pairwise_sum(std::int64_t n, Element x, Round round) {
  constexpr int levels = 63;
  C partial[levels];
  for (std::int64_t i = 0; i < n; ++i) {
    C sum = round(x(i));
    int level = 0;
    for (; (i >> level & 1) != 0; ++level) sum = round(partial[level] + sum);
    partial[level] = sum;
  }
  C sum = 0;
  for (int level = 0; level < levels; ++level) {
    if ((n >> level & 1) != 0) sum = round(partial[level] + sum);
  }
  return sum;
}

template <class C, class Element, class Round>
HOST_DEVICE C blocked_sum(std::int64_t n, Element x, Round round) {
  C sum = 0;
  for (std::int64_t i = 0; i < n; i += summation_block) {
    const std::int64_t end = i + summation_block < n ? i + summation_block : n;
    sum = round(sum + sequential_sum<C>(i, end, x, round));
  }
  return sum;
}

template <class C, class Element, class Round>
HOST_DEVICE C compensated_sum(std::int64_t n, Element x, Round round) {
  C sum = 0;
  C error = 0;  // of the last addition
  for (std::int64_t i = 0; i < n; ++i) {
    const C corrected = round(x(i) - error);
    const C next = round(sum + corrected);
    error = round(round(next - sum) - corrected);
    sum = next;
  }
  return sum;
}

template <class C, class Element, class Round>
HOST_DEVICE C sum_of(Summation how, std::int64_t n, Element x, Round round) {
  switch (how) {
    case Summation::sequential: return sequential_sum<C>(0, n, x, round);
    case Summation::pairwise: return pairwise_sum<C>(n, x, round);
    case Summation::blocked: return blocked_sum<C>(n, x, round);
    case Summation::compensated: return compensated_sum<C>(n, x, round);
  }
  return 0;  // a kernel cannot throw
}

}  // namespace paceline
