#pragma once
// Two 16-bit numbers in a 32-bit register, the format of tensor-core operands; the first is in the
// lower half.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <concepts>
#include <cstdint>

namespace paceline {

template <class T>
__device__ inline std::uint32_t packed(float first, float second) {
  if constexpr (std::same_as<T, __half>) {
    const __half2 pair = __floats2half2_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  } else {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<const std::uint32_t*>(&pair);
  }
}

// Two floats split as high + low; high and low are two bfloat16 each.
struct SplitPair {
  std::uint32_t high;
  std::uint32_t low;
};
__device__ inline SplitPair split(float first, float second) {
  const std::uint32_t high = packed<__nv_bfloat16>(first, second);
  // A bfloat16 is the upper 16 bits of a float.
  const float high_first = __uint_as_float(high << 16U);
  const float high_second = __uint_as_float(high & 0xffff0000U);
  return {high, packed<__nv_bfloat16>(first - high_first, second - high_second)};
}

}  // namespace paceline
