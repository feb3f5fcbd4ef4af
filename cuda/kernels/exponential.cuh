#pragma once
// Exponentials in one or two instructions, and likewise a reciprocal and a logarithm. The library's
// exponentials take six, more than kernels with one exponential per element have time for.

namespace paceline {

constexpr float log2e = 1.4426950408889634F;
constexpr float ln2 = 0.6931471805599453F;

// 2^x within a relative error of 2^-22; results below 2^-126 are 0.
__device__ inline float fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// exp(x); the relative error grows by |x| 2^-24.
__device__ inline float fast_exp(float x) { return fast_exp2(x * log2e); }

// log2(x) for x from 1 to 4; the error is below 2^-21.
__device__ inline float fast_log2(float x) {
  float logarithm;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(logarithm) : "f"(x));
  return logarithm;
}

// 1 / x within a relative error of 2^-23; infinite for x below 2^-126.
__device__ inline float fast_reciprocal(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

// The square root within a relative error of 2^-23.
__device__ inline float fast_sqrt(float x) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
  return root;
}

}  // namespace paceline
