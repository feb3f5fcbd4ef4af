// scores[..., i, j] = -infinity where j > i; nothing else is touched.

#include "cuda/check.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

constexpr int warps = 8;

// scores [N, T, T]; a warp takes a row and starts at the pack of its first masked element.
template <class T, int N>
__global__ void __launch_bounds__(32 * warps)
    causal_mask_kernel(T* scores, std::int64_t rows, int context) {
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.y;
  if (row >= rows) return;
  const int visible = static_cast<int>(row % context) + 1;
  T* x = scores + row * context;
  Pack<T, N> masked;
#pragma unroll
  for (int j = 0; j < N; ++j) masked.set(j, -INFINITY);
  for (int i = (visible / N + static_cast<int>(threadIdx.x)) * N; i < context; i += 32 * N) {
    if (i >= visible) {
      masked.store(x + i);
    } else {
      for (int j = visible; j < i + N; ++j) x[j] = masked.element[0];
    }
  }
}

}  // namespace

void CudaEagerOps::causal_mask(const Tensor& scores) {
  const std::int64_t context = scores.cols();
  const std::int64_t rows = scores.rows();
  dispatch_cuda(scores.dtype, [&]<class T>() {
    dispatch_width<T, T>(context, {scores.data}, [&]<int N>() {
      causal_mask_kernel<T, N>
          <<<static_cast<unsigned>((rows + warps - 1) / warps), dim3(32, warps), 0, stream()>>>(
              static_cast<T*>(scores.data), rows, static_cast<int>(context));
    });
  });
  CUDA_CHECK(cudaGetLastError());
}

}  // namespace paceline
