// Scale, causal mask and softmax in one kernel: y = softmax(scale x) of every row over the columns
// that it sees, 0 elsewhere. Backward: dx = scale y (dy - sum(dy y)). Masked columns are written,
// not read. y may alias x and dx may alias dy: no thread writes what another thread reads.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/online_softmax.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;           // packs of a row in a thread's registers
constexpr int max_threads = 512;  // so that the kept packs fit into registers
constexpr int long_threads = 1024;

// The number of columns that a row of [..., T, T] sees; 0 past the last row.
__device__ inline int visible_columns(std::int64_t row, std::int64_t rows, int cols, bool causal) {
  if (row >= rows) return 0;
  return causal ? static_cast<int>(row % cols) + 1 : cols;
}

template <int N>
__device__ inline int packs_over(int columns) {
  return (columns + N - 1) / N;
}

// Sets the elements of a row's i-th pack that are past its last visible column to `masked`. Called
// after all loads have been issued, because it waits for the load of its pack.
template <class T, int N>
__device__ inline void mask(Pack<T, N>& pack, int i, int visible, float masked) {
  if ((i + 1) * N <= visible) return;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if (i * N + j >= visible) pack.set(j, masked);
  }
}

// For rows that fit into a team's registers: one read and one exponential per element. factor:
// scale log2(e).
template <class X, class Y, int N>
__global__ void __launch_bounds__(max_threads)
    masked_softmax_kernel(Y* y, const X* x, std::int64_t rows, int cols, float factor,
                          bool causal) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int visible = visible_columns(row, rows, cols, causal);
  const int seen = packs_over<N>(visible);
  Pack<X, N> xs[kept];
  for_each_kept<kept>(seen,
                      [&](int k, int i) { xs[k] = Pack<X, N>::load(x + row * cols + i * N); });
  float highest = -INFINITY;
  for_each_kept<kept>(seen, [&](int k, int i) {
    mask(xs[k], i, visible, -INFINITY);
    highest = fmaxf(highest, highest_of(xs[k]));
  });
  highest = team_reduce(highest, Max{}) * factor;
  Pack<float, N> power[kept] = {};
  float sum = 0;
  for_each_kept<kept>(seen, [&](int k, int) {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      power[k].element[j] = fast_exp2(fmaf(xs[k][j], factor, -highest));
      sum += power[k][j];
    }
  });
  const float inverse = 1.0F / team_reduce(sum, Sum{});
  for_each_kept<kept>(row < rows ? cols / N : 0, [&](int k, int i) {
    Pack<Y, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.set(j, power[k][j] * inverse);
    out.store(y + row * cols + i * N);
  });
}

// For longer rows: one block per row, which reads it twice.
template <class X, class Y, int N>
__global__ void __launch_bounds__(long_threads)
    masked_softmax_long_kernel(Y* y, const X* x, int cols, float factor, bool causal) {
  wait_for_stream();
  const std::int64_t row = blockIdx.x;
  const int visible = visible_columns(row, gridDim.x, cols, causal);
  const int seen = packs_over<N>(visible);
  const X* from = x + row * cols;
  const auto hide = [&](Pack<X, N>& pack, int i) { mask(pack, i, visible, -INFINITY); };
  const MaxAndSum m = max_and_sum<X, N>(from, seen, factor, hide);
  const float inverse = 1.0F / m.sum;
  for (int i = static_cast<int>(threadIdx.x); i < cols / N; i += static_cast<int>(blockDim.x)) {
    Pack<Y, N> out{};
    if (i < seen) {
      auto a = Pack<X, N>::load(from + i * N);
      hide(a, i);
#pragma unroll
      for (int j = 0; j < N; ++j) out.set(j, fast_exp2(fmaf(a[j], factor, -m.highest)) * inverse);
    }
    out.store(y + row * cols + i * N);
  }
}

template <class G, class Y, int N>
struct Visible {
  Pack<G, N> dy;
  Pack<Y, N> y;
};

template <class G, class Y, int N>
__global__ void __launch_bounds__(max_threads, 2)
    masked_softmax_backward_kernel(G* dx, const G* dy, const Y* y, std::int64_t rows, int cols,
                                   float scale, bool causal) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int visible = visible_columns(row, rows, cols, causal);
  const int seen = packs_over<N>(visible);
  RowPacks<G, N, kept> dys(dy + row * cols, seen);
  RowPacks<Y, N, kept> ys(y + row * cols, seen);
  const auto load = [&](int k, int i) {
    Visible<G, Y, N> both{dys.get(k, i), ys.get(k, i)};
    mask(both.dy, i, visible, 0);
    mask(both.y, i, visible, 0);
    return both;
  };
  float sum = 0;
  for_each_pack<kept>(seen, [&](int k, int i) {
    const auto [g, p] = load(k, i);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += g[j] * p[j];
  });
  const float total = team_reduce(sum, Sum{});
  dys.stay_narrow();
  ys.stay_narrow();
  for_each_pack<kept>(row < rows ? cols / N : 0, [&](int k, int i) {
    Pack<G, N> out{};
    if (i < seen) {
      const auto [g, p] = load(k, i);
#pragma unroll
      for (int j = 0; j < N; ++j) out.set(j, scale * (p[j] * (g[j] - total)));
    }
    out.store(dx + row * cols + i * N);
  });
}

}  // namespace

void CudaEagerOps::masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) {
  const std::int64_t cols = x.cols();
  const std::int64_t rows = x.rows();
  const float factor = static_cast<float>(scores.scale) * log2e;
  dispatch_cuda_pair(x.dtype, y.dtype, [&]<class X, class Y>() {
    dispatch_width<X, Y>(cols, {y.data, x.data}, [&]<int N>() {
      auto* const to = static_cast<Y*>(y.data);
      const auto* const from = static_cast<const X*>(x.data);
      if (cols / N <= kept * max_threads) {
        const Teams teams = teams_for(rows, cols / N, kept, max_threads);
        launch({teams.grid, teams.block, stream()}, masked_softmax_kernel<X, Y, N>, to, from, rows,
               static_cast<int>(cols), factor, scores.causal);
      } else {
        launch({static_cast<unsigned>(rows), long_threads, stream()},
               masked_softmax_long_kernel<X, Y, N>, to, from, static_cast<int>(cols), factor,
               scores.causal);
      }
    });
  });
}

void CudaEagerOps::masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                                           const ScoreOptions& scores) {
  if (dx.dtype != dy.dtype) {
    throw InternalError("masked_softmax_backward: dy and dx have different dtypes");
  }
  const std::int64_t cols = y.cols();
  dispatch_cuda_pair(dy.dtype, y.dtype, [&]<class G, class Y>() {
    dispatch_width<G, Y>(cols, {dx.data, dy.data, y.data}, [&]<int N>() {
      const Teams teams = teams_for(y.rows(), cols / N, kept, max_threads);
      launch({teams.grid, teams.block, stream()}, masked_softmax_backward_kernel<G, Y, N>,
             static_cast<G*>(dx.data), static_cast<const G*>(dy.data),
             static_cast<const Y*>(y.data), y.rows(), static_cast<int>(cols),
             static_cast<float>(scores.scale), scores.causal);
    });
  });
}

}  // namespace paceline
