#pragma once
// 128-bit memory accesses, used by all memory-bound kernels.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "core/error.h"

namespace paceline {

// Calls f.template operator()<T>() with the device type of a floating dtype.
template <class F>
decltype(auto) dispatch_cuda(Dtype d, F&& f) {
  switch (d) {
    case Dtype::f32: return f.template operator()<float>();
    case Dtype::bf16: return f.template operator()<__nv_bfloat16>();
    case Dtype::f16: return f.template operator()<__half>();
    case Dtype::f64: throw InternalError("the CUDA device computes nothing in float64");
    case Dtype::i32: break;
  }
  throw_not_floating(d);
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

template <class T>
__device__ inline T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// N neighbouring elements, loaded and stored in accesses of at most 16 bytes. The address must be
// aligned to 16 bytes, or to N elements if these are smaller.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T element[N];

  static __device__ Pack load(const T* from) { return *reinterpret_cast<const Pack*>(from); }
  __device__ void store(T* to) const { *reinterpret_cast<Pack*>(to) = *this; }

  __device__ float operator[](int i) const { return to_float(element[i]); }
  __device__ void set(int i, float x) { element[i] = from_float<T>(x); }
};

template <class T, int N>
__device__ inline Pack<float, N> widened(const Pack<T, N>& x) {
  Pack<float, N> wide;
#pragma unroll
  for (int j = 0; j < N; ++j) wide.element[j] = x[j];
  return wide;
}

__device__ inline float2 to_float2(__nv_bfloat162 x) { return __bfloat1622float2(x); }
__device__ inline float2 to_float2(__half2 x) { return __half22float2(x); }

// Half types are compared two at a time.
template <class T, int N>
__device__ inline float highest_of(const Pack<T, N>& x) {
  if constexpr (sizeof(T) == 2 && N % 2 == 0) {
    using Pair = std::conditional_t<std::same_as<T, __half>, __half2, __nv_bfloat162>;
    Pair top(x.element[0], x.element[1]);
#pragma unroll
    for (int j = 2; j < N; j += 2) top = __hmax2(top, Pair(x.element[j], x.element[j + 1]));
    const float2 both = to_float2(top);
    return fmaxf(both.x, both.y);
  } else {
    float top = x[0];
#pragma unroll
    for (int j = 1; j < N; ++j) top = fmaxf(top, x[j]);
    return top;
  }
}

// Elements per access such that the wider of two types moves 16 bytes.
template <class A, class B = A>
inline constexpr int pack_size =
    16 / static_cast<int>(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

inline bool is_aligned(const void* p, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(p) % bytes == 0;
}

}  // namespace paceline
