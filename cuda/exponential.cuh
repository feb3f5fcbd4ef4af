#pragma once
// Exponentials in one or two instructions: the library's take six, and one per element leaves less
// time than that.

namespace paceline {

constexpr float log2e = 1.4426950408889634F;

// 2^x within a relative error of 2^-22; results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 2^x for -126 <= x < 127 by the multiply-add units, within a relative error of 2^-18: where there
// is nothing but exponentials, some of them relieve the unit that takes 16 a clock. Numbers below
// are taken for -126. Cody and Waite's reduction, as in FlashAttention-4.
__device__ inline float polynomial_exp2(float x) {
  constexpr float rounder = 12582912;  // 1.5 2^23: a number added to it is rounded to an integer
  x = fmaxf(x, -126.0F);
  const float whole = x + rounder;
  const float r = x - (whole - rounder);  // within 1/2
  const float power = fmaf(
      fmaf(fmaf(fmaf(0.0095701014F, r, 0.0559178603F), r, 0.2402474484F), r, 0.6931218147F), r,
      0.9999992614F);
  return __int_as_float(__float_as_int(power) + (__float_as_int(whole) << 23U));
}

// exp(x); the relative error grows by |x| 2^-24.
__device__ inline float fast_exp(float x) { return fast_exp2(x * log2e); }

}  // namespace paceline
