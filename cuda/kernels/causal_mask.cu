// scores[..., i, j] = -infinity for j > i; other elements are not written.

#include <algorithm>

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int warps = 8;

// scores [N, T, T]; `groups` blocks per matrix. A warp handles a row and starts at the sector of
// its first masked element. It writes the whole sector, since a partial write would have to read it
// first.
template <class T, int N>
__global__ void __launch_bounds__(32 * warps)
    causal_mask_kernel(T* scores, int context, unsigned groups) {
  wait_for_stream();
  constexpr int sector = std::max(N, static_cast<int>(32 / sizeof(T)) / N * N);  // elements
  const std::int64_t matrix = blockIdx.x / groups;
  const int row = static_cast<int>(blockIdx.x % groups * warps + threadIdx.y);
  if (row >= context) return;
  const int visible = row + 1;
  T* x = scores + (matrix * context + row) * context;
  for (int i = visible / sector * sector + static_cast<int>(threadIdx.x) * N; i < context;
       i += 32 * N) {
    Pack<T, N> pack{};
    if (i < visible) pack = Pack<T, N>::load(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (i + j >= visible) pack.set(j, -INFINITY);
    }
    pack.store(x + i);
  }
}

}  // namespace

void CudaEagerOps::causal_mask(const Tensor& scores) {
  const auto context = static_cast<int>(scores.cols());
  const auto matrices = static_cast<unsigned>(scores.rows() / context);
  const auto groups = static_cast<unsigned>((context + warps - 1) / warps);
  dispatch_cuda(scores.dtype, [&]<class T>() {
    dispatch_width<T, T>(context, {scores.data}, [&]<int N>() {
      launch({matrices * groups, dim3(32, warps), stream()}, causal_mask_kernel<T, N>,
             static_cast<T*>(scores.data), context, groups);
    });
  });
}

}  // namespace paceline
