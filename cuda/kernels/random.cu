// x[i] = the value of element first + i of a random stream, the same as on the host.

#include "core/random.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;

// A thread draws four elements of the stream: one call of Philox.
template <class T>
__global__ void __launch_bounds__(threads)
    fill_normal_kernel(T* x, std::int64_t n, Random random, TruncatedNormal normal,
                       std::int64_t first) {
  wait_for_stream();
  const std::int64_t quad =
      first / 4 + static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::array<double, 4> u = random.uniform4(static_cast<std::uint64_t>(quad));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::int64_t i = 4 * quad + k - first;
    if (i >= 0 && i < n) x[i] = from_float<T>(normal(u[k]));
  }
}

}  // namespace

void CudaEagerOps::fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                               std::int64_t first) {
  constexpr std::int64_t per_block = 4 * threads;
  const std::int64_t n = x.numel();
  if (n == 0) return;
  dispatch_cuda(x.dtype, [&]<class T>() {
    launch({static_cast<unsigned>((first % 4 + n + per_block - 1) / per_block), threads, stream()},
           fill_normal_kernel<T>, static_cast<T*>(x.data), n, random, normal, first);
  });
}

}  // namespace paceline
