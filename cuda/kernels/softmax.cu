// Softmax over the last dimension: y = exp(x - max) / sum of exp(x - max). Backward: dx = y (dy -
// sum(dy y)). y may be x and dx may be dy: a thread writes only what no other thread reads.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/online_softmax.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;
constexpr int max_threads = 512;  // so that registers hold what is kept
constexpr int long_threads = 1024;

// For rows that a team keeps in registers: they are read once, with one exp() per element.
template <class X, class Y, int N>
__global__ void __launch_bounds__(max_threads)
    softmax_kernel(Y* y, const X* x, std::int64_t rows, int cols) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int packs = row < rows ? cols / N : 0;
  const RowPacks<X, N, kept> xs(x + row * cols, packs);
  float highest = -INFINITY;
  for_each_kept<kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) highest = fmaxf(highest, a[j]);
  });
  highest = team_reduce(highest, Max{});
  Pack<float, N> power[kept];
  float sum = 0;
  for_each_kept<kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      power[k].element[j] = fast_exp(a[j] - highest);
      sum += power[k][j];
    }
  });
  const float factor = 1.0F / team_reduce(sum, Sum{});
  for_each_kept<kept>(packs, [&](int k, int i) {
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, power[k][j] * factor);
    out.store(y + row * cols + i * N);
  });
}

// For longer rows: one block per row, which is read twice.
template <class X, class Y, int N>
__global__ void __launch_bounds__(long_threads) softmax_long_kernel(Y* y, const X* x, int cols) {
  wait_for_stream();
  const std::int64_t offset = static_cast<std::int64_t>(blockIdx.x) * cols;
  const int packs = cols / N;
  const MaxAndSum m = max_and_sum<X, N>(x + offset, packs);
  const float factor = 1.0F / m.sum;
  for (int first = 0; first < packs; first += kept * static_cast<int>(blockDim.x)) {
    const int some = packs - first;
    const RowPacks<X, N, kept> xs(x + offset + first * N, some);
    for_each_kept<kept>(some, [&](int k, int i) {
      const Pack<X, N> a = xs.get(k, i);
      Pack<Y, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) out.set(j, fast_exp2(fmaf(a[j], log2e, -m.highest)) * factor);
      out.store(y + offset + (first + i) * N);
    });
  }
}

template <class G, class Y, int N>
__global__ void __launch_bounds__(max_threads, 2)
    softmax_backward_kernel(G* dx, const G* dy, const Y* y, std::int64_t rows, int cols) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int packs = row < rows ? cols / N : 0;
  RowPacks<G, N, kept> dys(dy + row * cols, packs);
  RowPacks<Y, N, kept> ys(y + row * cols, packs);
  float sum = 0;
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<G, N> g = dys.get(k, i);
    const Pack<Y, N> p = ys.get(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += g[j] * p[j];
  });
  const float total = team_reduce(sum, Sum{});
  dys.stay_narrow();
  ys.stay_narrow();
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<G, N> g = dys.get(k, i);
    const Pack<Y, N> p = ys.get(k, i);
    Pack<G, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, p[j] * (g[j] - total));
    out.store(dx + row * cols + i * N);
  });
}

}  // namespace

void CudaEagerOps::softmax(const Tensor& y, const Tensor& x) {
  const std::int64_t cols = x.cols();
  const std::int64_t rows = x.rows();
  dispatch_cuda_pair(x.dtype, y.dtype, [&]<class X, class Y>() {
    dispatch_width<X, Y>(cols, {y.data, x.data}, [&]<int N>() {
      auto* const to = static_cast<Y*>(y.data);
      const auto* const from = static_cast<const X*>(x.data);
      if (cols / N <= kept * max_threads) {
        const Teams teams = teams_for(rows, cols / N, kept, max_threads);
        launch({teams.grid, teams.block, stream()}, softmax_kernel<X, Y, N>, to, from, rows,
               static_cast<int>(cols));
      } else {
        launch({static_cast<unsigned>(rows), long_threads, stream()}, softmax_long_kernel<X, Y, N>,
               to, from, static_cast<int>(cols));
      }
    });
  });
}

void CudaEagerOps::softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  if (dx.dtype != dy.dtype) {
    throw InternalError("softmax_backward: dy and dx have different dtypes");
  }
  const std::int64_t cols = y.cols();
  dispatch_cuda_pair(dy.dtype, y.dtype, [&]<class G, class Y>() {
    dispatch_width<G, Y>(cols, {dx.data, dy.data, y.data}, [&]<int N>() {
      const Teams teams = teams_for(y.rows(), cols / N, kept, max_threads);
      launch({teams.grid, teams.block, stream()}, softmax_backward_kernel<G, Y, N>,
             static_cast<G*>(dx.data), static_cast<const G*>(dy.data),
             static_cast<const Y*>(y.data), y.rows(), static_cast<int>(cols));
    });
  });
}

}  // namespace paceline
