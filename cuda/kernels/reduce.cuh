#pragma once
// Sums and maxima over a warp or a block, with the result on every thread; prefix sums.

namespace paceline {

struct Sum {
  static constexpr float identity = 0;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Max {
  static constexpr float identity = -INFINITY;
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Op>
__device__ inline float warp_reduce(float x, Op op) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    x = op(x, __shfl_xor_sync(0xffffffffU, x, offset));
  }
  return x;
}

// Over four neighbouring lanes, which share the rows of a tensor-core accumulator.
template <class Op>
__device__ inline float quad_reduce(float x, Op op) {
  x = op(x, __shfl_xor_sync(0xffffffffU, x, 1));
  return op(x, __shfl_xor_sync(0xffffffffU, x, 2));
}

// For blocks of a multiple of 32 threads, at most 1024. Every thread must call it.
template <class Op>
__device__ inline float block_reduce(float x, Op op) {
  __shared__ float warps[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  x = warp_reduce(x, op);
  __syncthreads();  // the last call's values have been read
  if (lane == 0) warps[warp] = x;
  __syncthreads();
  const int count = static_cast<int>(blockDim.x) / 32;
  return warp_reduce(lane < count ? warps[lane] : Op::identity, op);
}

// The exclusive prefix sum of x over the threads of a block of `Threads`. Every thread must call
// it.
template <int Threads>
__device__ inline int block_sum_before(int x) {
  __shared__ int warps[Threads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int sum = x;
#pragma unroll
  for (int offset = 1; offset < 32; offset *= 2) {
    const int other = __shfl_up_sync(0xffffffffU, sum, offset);
    if (lane >= offset) sum += other;
  }
  __syncthreads();  // the last call's values have been read
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += warps[w];
  return sum - x;
}

}  // namespace paceline
