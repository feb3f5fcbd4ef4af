#pragma once
// y[i] = f(x[i], ...) over whole tensors of any dtypes; f computes in float.

#include <algorithm>
#include <cstdint>

#include "core/tensor.h"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

inline constexpr int map_threads = 256;

template <class Y, int N, class F, class... X>
__device__ inline Pack<Y, N> map_pack(F f, const Pack<X, N>&... x) {
  Pack<Y, N> y;
#pragma unroll
  for (int j = 0; j < N; ++j) y.set(j, f(x[j]...));
  return y;
}

// A thread handles two packs and reads all inputs before it writes, so y may alias an x. Misaligned
// tensors and the last block go element by element.
template <int N, class F, class Y, class... X>
__global__ void __launch_bounds__(map_threads)
    map_kernel(std::int64_t n, bool aligned, F f, Y* y, const X*... x) {
  wait_for_stream();
  constexpr int stride = map_threads * N;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (2 * stride);
  const std::int64_t end = first + 2 * stride;
  if (aligned && end <= n) {
    const std::int64_t i = first + static_cast<int>(threadIdx.x) * N;
    const auto low = map_pack<Y, N>(f, Pack<X, N>::load(x + i)...);
    const auto high = map_pack<Y, N>(f, Pack<X, N>::load(x + i + stride)...);
    low.store(y + i);
    high.store(y + i + stride);
    return;
  }
  for (std::int64_t i = first + threadIdx.x; i < end && i < n; i += map_threads) {
    y[i] = from_float<Y>(f(to_float(x[i])...));
  }
}

template <class F, class Y, class... X>
void launch_map(cudaStream_t stream, std::int64_t n, F f, Y* y, const X*... x) {
  if (n == 0) return;
  constexpr int width = 16 / static_cast<int>(std::max({sizeof(Y), sizeof(X)...}));
  constexpr std::int64_t per_block = 2 * map_threads * width;
  const bool aligned =
      is_aligned(y, alignof(Pack<Y, width>)) && (... && is_aligned(x, alignof(Pack<X, width>)));
  const auto blocks = static_cast<unsigned>((n + per_block - 1) / per_block);
  launch({blocks, map_threads, stream}, map_kernel<width, F, Y, X...>, n, aligned, f, y, x...);
}

template <class F>
void map(cudaStream_t stream, const Tensor& y, const Tensor& a, F f) {
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(a.dtype, [&]<class A>() {
      launch_map(stream, y.numel(), f, static_cast<Y*>(y.data), static_cast<const A*>(a.data));
    });
  });
}

template <class F>
void map(cudaStream_t stream, const Tensor& y, const Tensor& a, const Tensor& b, F f) {
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(a.dtype, [&]<class A>() {
      dispatch_cuda(b.dtype, [&]<class B>() {
        launch_map(stream, y.numel(), f, static_cast<Y*>(y.data), static_cast<const A*>(a.data),
                   static_cast<const B*>(b.data));
      });
    });
  });
}

}  // namespace paceline
