// RMSNorm (Zhang and Sennrich, arXiv:1910.07467, eq. 4): rstd = 1 / sqrt(mean(x^2) + eps),
// y = x rstd w. Backward, with xh = x rstd and g = dy w: dx = dx_in + rstd (g - xh mean(g xh)),
// dw (+)= sum over rows of dy xh.

#include "cuda/cuda_eager_ops.h"
#include "cuda/launch.cuh"
#include "cuda/partial_sums.h"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

constexpr int forward_kept = 4;
constexpr int forward_threads = 1024;
constexpr int blocks_each = 2;  // of the backward pass, on a multiprocessor

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

template <class X, class G, int N>
struct BackwardRow {
  RowPacks<X, N, column_kept<N>> x;
  RowPacks<G, N, column_kept<N>> dy;
  RowPacks<X, N, column_kept<N>> dx_in;
  float rstd;
};

// Block b takes rows b, b + gridDim.x, ..., so that its sums for dw stay in registers. The next
// row is requested before the present one is reduced: dx is written only to the present one.
template <class X, class G, int N>
__global__ void __launch_bounds__(column_threads, blocks_each)
    rms_norm_backward_kernel(X* dx, const X* dx_in, float* partial, const G* dy, const X* x,
                             const float* w, const float* rstd, std::int64_t rows, int cols) {
  wait_for_stream();
  const int packs = cols / N;
  const RowPacks<float, N, column_kept<N>> ws(w, packs);
  ColumnSums<N, column_kept<N>> dw(partial + static_cast<std::int64_t>(blockIdx.x) * cols, packs);
  const auto request = [&](std::int64_t row) {
    const int wanted = row < rows ? packs : 0;
    const std::int64_t offset = row * cols;
    return BackwardRow<X, G, N>{{x + offset, wanted},
                                {dy + offset, wanted},
                                {dx_in + offset, dx_in == nullptr ? 0 : wanted},
                                row < rows ? rstd[row] : 0};
  };
  BackwardRow<X, G, N> now = request(blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const BackwardRow<X, G, N> next = request(row + gridDim.x);
    const float inverse = now.rstd;
    float sum = 0;
    for_each_pack<column_kept<N>>(packs, [&](int k, int i) {
      const Pack<X, N> a = now.x.get(k, i);
      const Pack<G, N> g = now.dy.get(k, i);
      const Pack<float, N> weight = ws.get(k, i);
      Pack<float, N> term;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float normed = a[j] * inverse;
        sum += g[j] * weight[j] * normed;
        term.element[j] = g[j] * normed;
      }
      dw.add(k, i, term);
    });
    const float mean = block_reduce(sum, Sum{}) / static_cast<float>(cols);
    for_each_pack<column_kept<N>>(packs, [&](int k, int i) {
      const Pack<X, N> a = now.x.get(k, i);
      const Pack<G, N> g = now.dy.get(k, i);
      const Pack<float, N> weight = ws.get(k, i);
      Pack<X, N> in{};
      if (dx_in != nullptr) in = now.dx_in.get(k, i);
      Pack<X, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        out.set(j, in[j] + inverse * (g[j] * weight[j] - a[j] * inverse * mean));
      }
      out.store(dx + row * cols + i * N);
    });
    now = next;
  }
  dw.finish();
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

void CudaEagerOps::rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw,
                                     const Tensor& dy, const Tensor& x, const Tensor& w,
                                     const Tensor& rstd, bool accumulate_dw) {
  if (dx.dtype != x.dtype || (!dx_in.empty() && dx_in.dtype != x.dtype)) {
    throw InternalError("rms_norm_backward: x, dx and dx_in have different dtypes");
  }
  const std::int64_t cols = x.cols();
  // More blocks would hide more latency, but each adds a row of partial sums to what is moved.
  const int blocks = column_blocks(x.rows(), blocks_each * multiprocessors());
  float* partial = scratch(blocks * cols);  // [blocks, cols]
  dispatch_cuda_pair(x.dtype, dy.dtype, [&]<class X, class G>() {
    dispatch_width<X, G>(
        cols, {dx.data, dx_in.data, dy.data, x.data, w.data, partial}, [&]<int N>() {
          const int threads = block_for(cols / N, column_kept<N>, column_threads);
          launch({blocks, threads, stream()}, rms_norm_backward_kernel<X, G, N>,
                 static_cast<X*>(dx.data), static_cast<const X*>(dx_in.data), partial,
                 static_cast<const G*>(dy.data), static_cast<const X*>(x.data), w.as<float>(),
                 rstd.as<float>(), x.rows(), static_cast<int>(cols));
        });
  });
  sum_partials(dw, accumulate_dw, partial, blocks, cols, stream());
}

}  // namespace paceline
