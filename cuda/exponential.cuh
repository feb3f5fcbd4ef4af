#pragma once

namespace paceline {

// exp(x) in two instructions, within a relative error of 2^-22 + |x| 2^-24; results below 2^-126
// are 0. The library's takes six, and an exponential per element leaves less time than that.
__device__ inline float fast_exp(float x) {
  constexpr float log2e = 1.4426950408889634F;
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * log2e));
  return power;
}

}  // namespace paceline
