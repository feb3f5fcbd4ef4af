// AdamW (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2, as in torch.optim.AdamW), with
// g = gradient gradient_scale: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
// p = p (1 - lr wd) - lr / bc1 m / (sqrt(v / bc2) + eps).

#include <algorithm>
#include <array>
#include <concepts>
#include <type_traits>

#include "cuda/check.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/step_scalars.cuh"
#include "cuda/vector.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;
constexpr int blocks_per_multiprocessor = 3;  // as many as the registers allow
constexpr int packs = 2;                      // of a thread, requested together
constexpr int piece = packs * threads * 4;

struct AdamWStep {
  float gradient_scale, decay, step_size, root, eps, beta1, beta2, rest1, rest2;

  // Every rounding is spelled out: left to the compiler, fusing could differ between the places
  // where this is inlined, and an element's result would depend on where its shard begins.
  __device__ void update(float& p, float gradient, float& m, float& v) const {
    const float g = __fmul_rn(gradient, gradient_scale);
    m = __fmaf_rn(beta1, m, __fmul_rn(rest1, g));
    v = __fmaf_rn(beta2, v, __fmul_rn(__fmul_rn(rest2, g), g));
    const float denominator = __fmaf_rn(__fsqrt_rn(v), root, eps);
    p = __fmaf_rn(p, decay, -__fdiv_rn(__fmul_rn(step_size, m), denominator));
  }
};

__device__ AdamWStep step_of(double* scalars, const AdamWConfig& c) {
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

// Four elements that no later kernel finds in a cache, and that need not push out what it does.
template <class T>
struct Streamed {
  using Bits = std::conditional_t<sizeof(T) == 4, uint4, uint2>;
  static __device__ Pack<T, 4> load(const T* from) {
    const Bits bits = __ldcs(reinterpret_cast<const Bits*>(from));
    return reinterpret_cast<const Pack<T, 4>&>(bits);
  }
  static __device__ void store(T* to, const Pack<T, 4>& x) {
    __stcs(reinterpret_cast<Bits*>(to), reinterpret_cast<const Bits&>(x));
  }
};

template <class T, class Copy>
struct AdamWArrays {
  T* p;
  const T* g;
  T* m;
  T* v;
  Copy* copy;  // or null
};

// The blocks are as many as run at once, so that each works out the step's scalars only once.
template <class T, class Copy>
__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
    adamw_kernel(AdamWArrays<T, Copy> a, std::int64_t n, bool aligned, double* scalars,
                 AdamWConfig config) {
  if (at(scalars, StepScalar::found_inf) != 0) return;
  __shared__ AdamWStep shared;
  if (threadIdx.x == 0) shared = step_of(scalars, config);
  __syncthreads();
  const AdamWStep step = shared;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * piece; first < n;
       first += static_cast<std::int64_t>(gridDim.x) * piece) {
    if (aligned && first + piece <= n) {
      Pack<T, 4> p[packs], g[packs], m[packs], v[packs];
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        const std::int64_t i = first + (k * threads + static_cast<int>(threadIdx.x)) * 4;
        p[k] = Streamed<T>::load(a.p + i);
        g[k] = Streamed<T>::load(a.g + i);
        m[k] = Streamed<T>::load(a.m + i);
        v[k] = Streamed<T>::load(a.v + i);
      }
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        const std::int64_t i = first + (k * threads + static_cast<int>(threadIdx.x)) * 4;
        Pack<Copy, 4> copy;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          float pj = p[k][j], mj = m[k][j], vj = v[k][j];
          step.update(pj, g[k][j], mj, vj);
          p[k].set(j, pj);
          m[k].set(j, mj);
          v[k].set(j, vj);
          copy.set(j, pj);
        }
        Streamed<T>::store(a.p + i, p[k]);
        Streamed<T>::store(a.m + i, m[k]);
        Streamed<T>::store(a.v + i, v[k]);
        if (a.copy != nullptr) copy.store(a.copy + i);
      }
    } else {
      for (std::int64_t i = first + threadIdx.x; i < first + piece && i < n; i += threads) {
        float p = to_float(a.p[i]), m = to_float(a.m[i]), v = to_float(a.v[i]);
        step.update(p, to_float(a.g[i]), m, v);
        a.p[i] = from_float<T>(p);
        a.m[i] = from_float<T>(m);
        a.v[i] = from_float<T>(v);
        if (a.copy != nullptr) a.copy[i] = from_float<Copy>(p);
      }
    }
  }
}

}  // namespace

void CudaEagerOps::adamw(const AdamWRange& range, const StepState& state,
                         const AdamWConfig& config) {
  const auto& [p, g, m, v, copy] = range;
  if (g.dtype != p.dtype || m.dtype != p.dtype || v.dtype != p.dtype) {
    throw InternalError("adamw: parameters, gradients, m and v have different dtypes");
  }
  const std::int64_t n = p.numel();
  if (n == 0) return;
  const auto launch = [&]<class T, class Copy>() {
    const bool aligned = std::ranges::all_of(std::array{p.data, g.data, m.data, v.data},
                                             [](void* x) { return is_aligned(x, 16); }) &&
                         is_aligned(copy.data, alignof(Pack<Copy, 4>));
    const std::int64_t blocks = std::min<std::int64_t>(
        (n + piece - 1) / piece, blocks_per_multiprocessor * multiprocessors());
    adamw_kernel<T, Copy><<<static_cast<unsigned>(blocks), threads, 0, stream()>>>(
        {static_cast<T*>(p.data), static_cast<const T*>(g.data), static_cast<T*>(m.data),
         static_cast<T*>(v.data), static_cast<Copy*>(copy.data)},
        n, aligned, scalars_of(state), config);
  };
  dispatch_cuda(p.dtype, [&]<class T>() {
    dispatch_cuda(copy.empty() ? p.dtype : copy.dtype, [&]<class Copy>() {
      if constexpr (std::same_as<T, float> || std::same_as<T, Copy>) {
        launch.template operator()<T, Copy>();
      } else {
        throw InternalError("adamw: a copy of half-precision parameters in another dtype");
      }
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace paceline
