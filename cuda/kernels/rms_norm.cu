// RMSNorm (Zhang and Sennrich, arXiv:1910.07467, eq. 4): rstd = 1 / sqrt(mean(x^2) + eps),
// y = x rstd w.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int forward_kept = 4;
constexpr int forward_threads = 1024;

template <class X, class Y, int N>
__global__ void __launch_bounds__(forward_threads)
    rms_norm_kernel(Y* y, float* rstd, const X* x, const float* w, std::int64_t rows, int cols,
                    float eps) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int packs = row < rows ? cols / N : 0;
  const RowPacks<X, N, forward_kept> xs(x + row * cols, packs);
  float sum = 0;
  for_each_pack<forward_kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += a[j] * a[j];
  });
  const float mean = team_reduce(sum, Sum{}) / static_cast<float>(cols);
  const float inverse = 1.0F / sqrtf(mean + eps);
  for_each_pack<forward_kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
    const auto weight = Pack<float, N>::load(w + i * N);
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, a[j] * inverse * weight[j]);
    out.store(y + row * cols + i * N);
  });
  if (threadIdx.x == 0 && packs > 0) rstd[row] = inverse;
}

}  // namespace

void CudaEagerOps::rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                            double eps) {
  const std::int64_t cols = x.cols();
  dispatch_cuda_pair(x.dtype, y.dtype, [&]<class X, class Y>() {
    dispatch_width<X, Y>(cols, {y.data, x.data, w.data}, [&]<int N>() {
      const Teams teams = teams_for(x.rows(), cols / N, forward_kept, forward_threads);
      launch({teams.grid, teams.block, stream()}, rms_norm_kernel<X, Y, N>, static_cast<Y*>(y.data),
             rstd.as<float>(), static_cast<const X*>(x.data), w.as<float>(), x.rows(),
             static_cast<int>(cols), static_cast<float>(eps));
    });
  });
}

}  // namespace paceline
