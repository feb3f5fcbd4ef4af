#pragma once
// One element's AdamW update, as in torch.optim.AdamW, and its memory accesses.

#include <bit>
#include <type_traits>

#include "core/ops.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/step_scalars.cuh"
#include "cuda/kernels/vector.cuh"

namespace paceline {

struct AdamWStep {
  float gradient_scale, decay, step_size, root, eps, beta1, beta2, rest1, rest2;

  // Every rounding is explicit. Left to the compiler, FMA contraction could differ between the
  // places where this is inlined, and an element's result would depend on where its shard begins.
  __device__ void update(float& p, float gradient, float& m, float& v) const {
    const float g = __fmul_rn(gradient, gradient_scale);
    m = __fmaf_rn(beta1, m, __fmul_rn(rest1, g));
    v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(rest2, g), g));
    const float denominator = __fmaf_rn(fast_sqrt(v), root, eps);
    p = __fmaf_rn(p, decay, -__fdividef(__fmul_rn(step_size, m), denominator));
  }
};

__device__ inline AdamWStep step_of(double* scalars, const AdamWConfig& c) {
  const double rate = at(scalars, StepScalar::learning_rate);
  return {static_cast<float>(at(scalars, StepScalar::gradient_scale)),
          static_cast<float>(1 - rate * c.weight_decay),
          static_cast<float>(rate / at(scalars, StepScalar::bias_correction1)),
          static_cast<float>(1 / sqrt(at(scalars, StepScalar::bias_correction2))),
          static_cast<float>(c.eps),
          static_cast<float>(c.beta1),
          static_cast<float>(c.beta2),
          static_cast<float>(1 - c.beta1),
          static_cast<float>(1 - c.beta2)};
}

// Up to four elements with streaming cache hints: no later kernel can find them in a cache, and
// they should not evict other data. `whole`: all four, at an address aligned for one access.
template <class T>
struct Streamed {
  static constexpr int width = 4;
  using Bits = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  static __device__ Pack<T, width> load(const T* from, int count = width, bool whole = true) {
    if (whole) return std::bit_cast<Pack<T, width>>(__ldcs(reinterpret_cast<const Bits*>(from)));
    Pack<T, width> x{};
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (j < count) x.element[j] = from[j];
    }
    return x;
  }
  static __device__ void store(T* to, const Pack<T, width>& x, int count = width,
                               bool whole = true) {
    if (whole) {
      __stcs(reinterpret_cast<Bits*>(to), std::bit_cast<Bits>(x));
      return;
    }
#pragma unroll
    for (int j = 0; j < width; ++j) {
      if (j < count) to[j] = x.element[j];
    }
  }
};

}  // namespace paceline
