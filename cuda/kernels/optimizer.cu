// AdamW (Loshchilov and Hutter, arXiv:1711.05101, algorithm 2, as in torch.optim.AdamW), with
// g = gradient gradient_scale: m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
// p = p (1 - lr wd) - lr / bc1 m / (sqrt(v / bc2) + eps).

#include <algorithm>
#include <array>
#include <concepts>

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/adamw.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int threads = 128;
constexpr int width = Streamed<float>::width;  // elements per thread

template <class T, class G, class Copy>
struct AdamWArrays {
  T* p;
  const G* g;
  T* m;
  T* v;
  Copy* copy;  // or null
};

// Small blocks in a grid that covers all elements: seven memory streams reach the rate of a copy
// only if new loads start as others end, not in the waves of a grid-stride loop. One thread of each
// block computes the step's scalars while the loads are in flight.
template <class T, class G, class Copy>
__global__ void __launch_bounds__(threads)
    adamw_kernel(AdamWArrays<T, G, Copy> a, std::int64_t n, bool aligned, double* scalars,
                 AdamWConfig config) {
  wait_for_stream();
  if (at(scalars, StepScalar::found_inf) != 0) return;
  const std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * width;
  const auto count = static_cast<int>(min(std::int64_t{width}, n - i));
  const bool whole = aligned && count == width;
  auto p = Streamed<T>::load(a.p + i, count, whole);
  const auto g = Streamed<G>::load(a.g + i, count, whole);
  auto m = Streamed<T>::load(a.m + i, count, whole);
  auto v = Streamed<T>::load(a.v + i, count, whole);
  __shared__ AdamWStep step;
  if (threadIdx.x == 0) step = step_of(scalars, config);
  __syncthreads();
  Pack<Copy, width> copy;
#pragma unroll
  for (int j = 0; j < width; ++j) {
    float pj = p[j], mj = m[j], vj = v[j];
    step.update(pj, g[j], mj, vj);
    p.set(j, pj);
    m.set(j, mj);
    v.set(j, vj);
    copy.set(j, pj);
  }
  Streamed<T>::store(a.p + i, p, count, whole);
  Streamed<T>::store(a.m + i, m, count, whole);
  Streamed<T>::store(a.v + i, v, count, whole);
  if (a.copy != nullptr) Streamed<Copy>::store(a.copy + i, copy, count, whole);
}

}  // namespace

void CudaEagerOps::adamw(const AdamWRange& range, const StepState& state,
                         const AdamWConfig& config) {
  const auto& [p, g, m, v, copy] = range;
  if (m.dtype != p.dtype || v.dtype != p.dtype) {
    throw InternalError("adamw: parameters, m and v have different dtypes");
  }
  const std::int64_t n = p.numel();
  if (n == 0) return;
  const auto update = [&]<class T, class G, class Copy>() {
    const bool aligned = std::ranges::all_of(std::array{p.data, m.data, v.data},
                                             [](void* x) { return is_aligned(x, 16); }) &&
                         is_aligned(g.data, alignof(Pack<G, width>)) &&
                         is_aligned(copy.data, alignof(Pack<Copy, width>));
    constexpr std::int64_t piece = threads * width;
    launch({static_cast<unsigned>((n + piece - 1) / piece), threads, stream()},
           adamw_kernel<T, G, Copy>,
           AdamWArrays<T, G, Copy>{static_cast<T*>(p.data), static_cast<const G*>(g.data),
                                   static_cast<T*>(m.data), static_cast<T*>(v.data),
                                   static_cast<Copy*>(copy.data)},
           n, aligned, scalars_of(state), config);
  };
  dispatch_cuda(p.dtype, [&]<class T>() {
    dispatch_cuda(copy.empty() ? p.dtype : copy.dtype, [&]<class Copy>() {
      if constexpr (!std::same_as<T, float> && !std::same_as<T, Copy>) {
        throw InternalError("adamw: a copy of half-precision parameters in another dtype");
      } else if (g.dtype == p.dtype) {
        update.template operator()<T, T, Copy>();
      } else if (std::same_as<T, float> && g.dtype == Dtype::bf16) {
        update.template operator()<T, __nv_bfloat16, Copy>();
      } else {
        throw InternalError("adamw: gradients neither of the parameters' dtype nor bfloat16");
      }
    });
  });
}

}  // namespace paceline
