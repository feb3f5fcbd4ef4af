#pragma once
// exp() in plain arithmetic, which the compiler vectorises; the C library's is a call per element.

#include <bit>
#include <cmath>
#include <cstdint>

namespace paceline {

// exp(x) within 2 units in the last place, from -infinity (0) to infinity; NaN stays NaN.
inline float vector_exp(float x) {
  // exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2.
  constexpr float log2_e = 1.44269504F;
  constexpr float ln2_high = 0.693359375F;  // 9 bits, so that n ln2_high is exact
  constexpr float ln2_low = -2.12194440e-4F;
  // Adding 1.5 2^23 rounds to an integer, which is in the low bits of the sum.
  constexpr float rounder = 12582912.0F;
  // Beyond these bounds the result is 0 or infinity. NaN fails both comparisons and is kept.
  const float above = x < -104.0F ? -104.0F : x;
  const float bounded = above > 89.0F ? 89.0F : above;
  const float shifted = bounded * log2_e + rounder;
  const float n = shifted - rounder;
  const float r = (bounded - n * ln2_high) - n * ln2_low;
  // Taylor series to r^7 / 7!; the remainder is below 2^-27.
  float p = 1.0F / 5040;
  p = p * r + 1.0F / 720;
  p = p * r + 1.0F / 120;
  p = p * r + 1.0F / 24;
  p = p * r + 1.0F / 6;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  // 2^n in two factors, since n may be outside the range of a normal exponent.
  const std::int32_t power =
      std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(rounder);
  const std::int32_t half = power >> 1;
  const auto two_to = [](std::int32_t k) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23U);
  };
  return p * two_to(half) * two_to(power - half);
}

inline double vector_exp(double x) { return std::exp(x); }

}  // namespace paceline
