#pragma once
// Stores the rows of an accumulator to global memory.

#include <cstdint>

#include "cuda/hopper/wgmma.cuh"

namespace paceline {

// Transposes 4 x 4 words over four neighbouring lanes: before, words[i] of lane c is word c of
// chunk i; afterwards lane c has the words of chunk c.
__device__ inline void transpose_in_quad(std::uint32_t (&words)[4]) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = (threadIdx.x & distance) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & distance) continue;
      const std::uint32_t sent = upper ? words[i] : words[i + distance];
      const std::uint32_t got = __shfl_xor_sync(0xffffffffU, sent, distance);
      words[i] = upper ? got : words[i];
      words[i + distance] = upper ? words[i + distance] : got;
    }
  }
}

// Stores x as rows first ... first + 63 at to[row * stride], as far as they are below `rows`.
// Called by the whole warpgroup.
template <int N>
__device__ void store_rows(float* to, std::int64_t stride, const hopper::Accumulator<N>& x,
                           int first, int rows) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first + x.row() + 8 * h;
    if (row >= rows) continue;
    float* const out = to + row * stride + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int c = 0; c < N / 8; ++c) {
      *reinterpret_cast<float2*>(out + 8 * c) =
          make_float2(x.at[4 * c + 2 * h], x.at[4 * c + 2 * h + 1]);
    }
  }
}

// The same rounded to 16 bits, with stores of 16 bytes per lane.
template <class T, int N>
__device__ void store_rows(T* to, std::int64_t stride, const hopper::Accumulator<N>& x, int first,
                           int rows) {
  constexpr int chunks = N / 8;  // of 16 bytes
  const int lane_in_quad = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = first + x.row() + 8 * h;
    T* const out = to + row * stride;
#pragma unroll
    for (int c = 0; c < chunks; c += 4) {
      std::uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4 && c + i < chunks; ++i) {
        words[i] = packed<T>(x.at[4 * (c + i) + 2 * h], x.at[4 * (c + i) + 2 * h + 1]);
      }
      if (c + 4 <= chunks) {
        transpose_in_quad(words);
        if (row < rows) {
          *reinterpret_cast<uint4*>(out + 8 * (c + lane_in_quad)) =
              make_uint4(words[0], words[1], words[2], words[3]);
        }
      } else {
#pragma unroll
        for (int i = 0; c + i < chunks; ++i) {
          if (row >= rows) continue;
          *reinterpret_cast<std::uint32_t*>(out + 8 * (c + i) + 2 * lane_in_quad) = words[i];
        }
      }
    }
  }
}

}  // namespace paceline
