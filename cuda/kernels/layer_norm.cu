// LayerNorm (Ba, Kiros and Hinton, arXiv:1607.06450, eq. 4): over a row, with the biased variance,
// y = (x - mean) rstd w + b. Backward, with xh = (x - mean) rstd and g = dy w: dx = rstd (g -
// mean(g) - xh mean(g xh)), dw (+)= sum over rows of dy xh, db (+)= sum over rows of dy.

#include "cuda/cuda_toy_ops.h"
#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int forward_kept = 4;
constexpr int forward_threads = 1024;
constexpr int blocks_each = 2;  // blocks of the backward pass per multiprocessor

template <class X, class Y, int N>
__global__ void __launch_bounds__(forward_threads)
    layer_norm_kernel(Y* y, float* mean, float* rstd, const X* x, const float* w, const float* b,
                      std::int64_t rows, int cols, float eps) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int packs = row < rows ? cols / N : 0;
  const RowPacks<X, N, forward_kept> xs(x + row * cols, packs);
  float sum = 0;
  for_each_pack<forward_kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += a[j];
  });
  const float center = team_reduce(sum, Sum{}) / static_cast<float>(cols);
  float squares = 0;
  for_each_pack<forward_kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) squares += (a[j] - center) * (a[j] - center);
  });
  const float variance = team_reduce(squares, Sum{}) / static_cast<float>(cols);
  const float inverse = 1.0F / sqrtf(variance + eps);
  for_each_pack<forward_kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
    const auto weight = Pack<float, N>::load(w + i * N);
    const auto bias = Pack<float, N>::load(b + i * N);
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, (a[j] - center) * inverse * weight[j] + bias[j]);
    out.store(y + row * cols + i * N);
  });
  if (threadIdx.x == 0 && packs > 0) {
    mean[row] = center;
    rstd[row] = inverse;
  }
}

// Block b handles rows b, b + gridDim.x, ..., so that its sums for dw and db stay in registers.
template <class X, class G, int N>
__global__ void __launch_bounds__(column_threads, blocks_each)
    layer_norm_backward_kernel(X* dx, float* partial, const G* dy, const X* x, const float* w,
                               const float* mean, const float* rstd, std::int64_t rows, int cols) {
  wait_for_stream();
  const int packs = cols / N;
  float* const sums = partial + static_cast<std::int64_t>(blockIdx.x) * 2 * cols;
  ColumnSums<N, column_kept<N>> dw(sums, packs);
  ColumnSums<N, column_kept<N>> db(sums + cols, packs);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const RowPacks<X, N, column_kept<N>> xs(x + row * cols, packs);
    const RowPacks<G, N, column_kept<N>> dys(dy + row * cols, packs);
    const float center = mean[row];
    const float inverse = rstd[row];
    float sum = 0;
    float product = 0;
    for_each_pack<column_kept<N>>(packs, [&](int k, int i) {
      const Pack<X, N> a = xs.get(k, i);
      const Pack<G, N> g = dys.get(k, i);
      const auto weight = Pack<float, N>::load(w + i * N);
      Pack<float, N> w_term;
      Pack<float, N> b_term;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float normed = (a[j] - center) * inverse;
        sum += g[j] * weight[j];
        product += g[j] * weight[j] * normed;
        w_term.element[j] = g[j] * normed;
        b_term.element[j] = g[j];
      }
      dw.add(k, i, w_term);
      db.add(k, i, b_term);
    });
    const float mean_g = block_reduce(sum, Sum{}) / static_cast<float>(cols);
    const float mean_product = block_reduce(product, Sum{}) / static_cast<float>(cols);
    for_each_pack<column_kept<N>>(packs, [&](int k, int i) {
      const Pack<X, N> a = xs.get(k, i);
      const Pack<G, N> g = dys.get(k, i);
      const auto weight = Pack<float, N>::load(w + i * N);
      Pack<X, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float normed = (a[j] - center) * inverse;
        out.set(j, inverse * (g[j] * weight[j] - mean_g - normed * mean_product));
      }
      out.store(dx + row * cols + i * N);
    });
  }
  dw.finish();
  db.finish();
}

}  // namespace

void CudaToyOps::layer_norm(const Tensor& y, const Tensor& mean, const Tensor& rstd,
                            const Tensor& x, const Tensor& w, const Tensor& b, double eps) {
  const std::int64_t cols = x.cols();
  dispatch_cuda_pair(x.dtype, y.dtype, [&]<class X, class Y>() {
    dispatch_width<X, Y>(cols, {y.data, x.data, w.data, b.data}, [&]<int N>() {
      const Teams teams = teams_for(x.rows(), cols / N, forward_kept, forward_threads);
      launch({teams.grid, teams.block, stream_}, layer_norm_kernel<X, Y, N>,
             static_cast<Y*>(y.data), mean.as<float>(), rstd.as<float>(),
             static_cast<const X*>(x.data), w.as<float>(), b.as<float>(), x.rows(),
             static_cast<int>(cols), static_cast<float>(eps));
    });
  });
}

void CudaToyOps::layer_norm_backward(const Tensor& dx, const Tensor& dw, const Tensor& db,
                                     const Tensor& dy, const Tensor& x, const Tensor& w,
                                     const Tensor& mean, const Tensor& rstd, bool accumulate) {
  if (dx.dtype != x.dtype) {
    throw InternalError("layer_norm_backward: x and dx have different dtypes");
  }
  const std::int64_t cols = x.cols();
  const int blocks = column_blocks(x.rows(), blocks_each * multiprocessors_);
  float* partial = scratch_.floats(blocks * 2 * cols);  // [blocks, 2, cols]: for dw, for db
  dispatch_cuda_pair(x.dtype, dy.dtype, [&]<class X, class G>() {
    dispatch_width<X, G>(cols, {dx.data, dy.data, x.data, w.data, partial}, [&]<int N>() {
      const int threads = block_for(cols / N, column_kept<N>, column_threads);
      launch({blocks, threads, stream_}, layer_norm_backward_kernel<X, G, N>,
             static_cast<X*>(dx.data), partial, static_cast<const G*>(dy.data),
             static_cast<const X*>(x.data), w.as<float>(), mean.as<float>(), rstd.as<float>(),
             x.rows(), static_cast<int>(cols));
    });
  });
  sum_partials(dw, accumulate, partial, blocks, 2 * cols, stream_);
  sum_partials(db, accumulate, partial + cols, blocks, 2 * cols, stream_);
}

}  // namespace paceline
