// x[i] = the distribution's value of element i of a random stream, as on the host.

#include "core/random.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/launch.cuh"
#include "cuda/vector.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;

// A thread draws four elements: what Philox gives at once.
template <class T>
__global__ void __launch_bounds__(threads)
    fill_normal_kernel(T* x, std::int64_t n, Random random, TruncatedNormal normal) {
  wait_for_stream();
  const std::int64_t quad = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::array<double, 4> u = random.uniform4(static_cast<std::uint64_t>(quad));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (4 * quad + k < n) x[4 * quad + k] = from_float<T>(normal(u[k]));
  }
}

}  // namespace

void CudaEagerOps::fill_normal(const Tensor& x, const Random& random,
                               const TruncatedNormal& normal) {
  constexpr std::int64_t per_block = 4 * threads;
  const std::int64_t n = x.numel();
  if (n == 0) return;
  dispatch_cuda(x.dtype, [&]<class T>() {
    launch({static_cast<unsigned>((n + per_block - 1) / per_block), threads, stream()},
           fill_normal_kernel<T>, static_cast<T*>(x.data), n, random, normal);
  });
}

}  // namespace paceline
