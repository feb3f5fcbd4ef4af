// A residual connection and the RMSNorm of its sum in one pass (Zhang and Sennrich,
// arXiv:1910.07467, eq. 4): residual = x + branch, rstd = 1 / sqrt(mean(residual^2) + eps), normed
// = residual rstd w. For rows of up to 8192 bitwise equal to add() followed by rms_norm().

#include <utility>

#include "cuda/cuda_fused_ops.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;
constexpr int max_threads = 512;

// residual, x [rows, cols] float32; normed, branch [rows, cols]; rstd [rows]; w [cols]
template <class T, int N>
__global__ void __launch_bounds__(max_threads)
    add_rms_norm_kernel(float* residual, T* normed, float* rstd, const float* x, const T* branch,
                        const float* w, std::int64_t rows, int cols, float eps) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const std::int64_t offset = row * cols;
  const int packs = row < rows ? cols / N : 0;
  const RowPacks<float, N, kept> xs(x + offset, packs);
  const RowPacks<T, N, kept> branches(branch + offset, packs);
  const RowPacks<float, N, kept> ws(w, packs);
  Pack<float, N> sums[kept];
  float squares = 0;
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<float, N> a = xs.get(k, i);
    const Pack<T, N> b = branches.get(k, i);
    Pack<float, N> sum;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      sum.set(j, a[j] + b[j]);
      squares += sum[j] * sum[j];
    }
    sum.store(residual + offset + i * N);
    if (k < kept) sums[k] = sum;
  });
  const float mean = team_reduce(squares, Sum{}) / static_cast<float>(cols);
  const float inverse = 1.0F / sqrtf(mean + eps);
  for_each_pack<kept>(packs, [&](int k, int i) {
    const auto sum = k < kept ? sums[k] : Pack<float, N>::load(residual + offset + i * N);
    const Pack<float, N> weight = ws.get(k, i);
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, sum[j] * inverse * weight[j]);
    out.store(normed + offset + i * N);
  });
  if (threadIdx.x == 0 && packs > 0) rstd[row] = inverse;
}

}  // namespace

Ops::Normed CudaFusedOps::add_rms_norm(Saved& saved, Array x, Array branch,
                                       const Parameter& weight) {
  if (branch.empty()) return Ops::add_rms_norm(saved, std::move(x), {}, weight);
  const Array residual = activation(x.shape(), precision().residual);
  const Array normed = activation(x.shape(), precision().compute);
  const Tensor& sum = residual;
  const Array rstd = activation({sum.rows()}, precision().statistics);
  const Tensor& in = x;
  const Tensor& added = branch;
  const Tensor& out = normed;
  if (added.dtype != out.dtype) {
    throw InternalError("add_rms_norm: the branch is not in the compute dtype");
  }
  const std::int64_t rows = sum.rows();
  const std::int64_t cols = sum.cols();
  const Scope scope = operation("add_rms_norm", {residual, normed, x, branch, rstd});
  dispatch_cuda(out.dtype, [&]<class T>() {
    dispatch_width<float, T>(
        cols, {sum.data, out.data, in.data, added.data, weight.value.data}, [&]<int N>() {
          const Teams teams = teams_for(rows, cols / N, kept, max_threads);
          launch({teams.grid, teams.block, stream()}, add_rms_norm_kernel<T, N>, sum.as<float>(),
                 static_cast<T*>(out.data), rstd.tensor().as<float>(), in.as<float>(),
                 static_cast<const T*>(added.data), weight.value.as<float>(), rows,
                 static_cast<int>(cols), static_cast<float>(norm_eps));
        });
  });
  saved.save({residual, rstd});
  return {.residual = residual, .normed = normed};
}

}  // namespace paceline
