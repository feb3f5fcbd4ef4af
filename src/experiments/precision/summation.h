#pragma once
// Sums in a fixed order of additions, each rounded to the dtype of the sum, as IEEE 754 prescribes:
// a GPU gives the same bits.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>

#include "core/dtype.h"

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
inline constexpr std::size_t summation_block = 32;

// The number of `dtype`, at most float32, that is nearest to x. The float32 sum of two half
// numbers, rounded, is the half number nearest to their sum.
[[nodiscard]] inline float nearest(Dtype dtype, float x) {
  return dispatch_floating(dtype, [&]<class T>() { return static_cast<float>(static_cast<T>(x)); });
}

[[nodiscard]] inline float sequential_sum(std::span<const float> x, Dtype dtype) {
  float sum = 0;
  for (const float v : x) sum = nearest(dtype, sum + v);
  return sum;
}

// At least one number.
[[nodiscard]] inline float pairwise_sum(std::span<const float> x, Dtype dtype) {
  if (x.size() == 1) return nearest(dtype, x.front());
  const std::size_t half = std::bit_ceil(x.size()) / 2;
  return nearest(dtype, pairwise_sum(x.first(half), dtype) + pairwise_sum(x.subspan(half), dtype));
}

[[nodiscard]] inline float blocked_sum(std::span<const float> x, Dtype dtype) {
  float sum = 0;
  for (std::size_t i = 0; i < x.size(); i += summation_block) {
    const auto block = x.subspan(i, std::min(summation_block, x.size() - i));
    sum = nearest(dtype, sum + sequential_sum(block, dtype));
  }
  return sum;
}

[[nodiscard]] inline float compensated_sum(std::span<const float> x, Dtype dtype) {
  float sum = 0;
  float error = 0;  // of the last addition
  for (const float v : x) {
    const float corrected = nearest(dtype, v - error);
    const float next = nearest(dtype, sum + corrected);
    error = nearest(dtype, nearest(dtype, next - sum) - corrected);
    sum = next;
  }
  return sum;
}

// At least one number.
[[nodiscard]] inline float sum_of(Summation how, std::span<const float> x, Dtype dtype) {
  switch (how) {
    case Summation::sequential: return sequential_sum(x, dtype);
    case Summation::pairwise: return pairwise_sum(x, dtype);
    case Summation::blocked: return blocked_sum(x, dtype);
    case Summation::compensated: return compensated_sum(x, dtype);
  }
  throw_unnamed(static_cast<std::size_t>(how));
}

}  // namespace paceline
