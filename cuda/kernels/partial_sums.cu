// out[j] (+)= sum over g of partial[g, j], and out = factor * sum of values.

#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

// A block sums 32 columns: warp y adds the groups y, y + 32, ..., then reduces column y.
template <class T>
__global__ void __launch_bounds__(1024)
    sum_partials_kernel(T* out, bool accumulate, const float* partial, int groups,
                        std::int64_t stride, std::int64_t cols) {
  wait_for_stream();
  __shared__ float sums[32][33];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * 32;
  float sum = 0;
  if (first + threadIdx.x < cols) {
#pragma unroll 8
    for (int g = static_cast<int>(threadIdx.y); g < groups; g += 32) {
      sum += partial[g * stride + first + threadIdx.x];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  const float total = warp_reduce(sums[threadIdx.x][threadIdx.y], Sum{});
  const std::int64_t j = first + threadIdx.y;
  if (threadIdx.x == 0 && j < cols) {
    out[j] = from_float<T>(accumulate ? to_float(out[j]) + total : total);
  }
}

__global__ void __launch_bounds__(1024)
    sum_values_kernel(float* out, const float* values, std::int64_t count, float factor) {
  wait_for_stream();
  float sum = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[i];
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) out[0] = sum * factor;
}

}  // namespace

void sum_partials(const Tensor& out, bool accumulate, const float* partial, int groups,
                  std::int64_t stride, cudaStream_t stream) {
  const std::int64_t cols = out.numel();
  dispatch_cuda(out.dtype, [&]<class T>() {
    launch({static_cast<unsigned>((cols + 31) / 32), dim3(32, 32), stream}, sum_partials_kernel<T>,
           static_cast<T*>(out.data), accumulate, partial, groups, stride, cols);
  });
}

void sum_values(const Tensor& out, const float* values, std::int64_t count, float factor,
                cudaStream_t stream) {
  launch({1, 1024, stream}, sum_values_kernel, out.as<float>(), values, count, factor);
}

}  // namespace paceline
