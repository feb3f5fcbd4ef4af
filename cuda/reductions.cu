// Sums over rows and columns: bias_backward: dbias[j] (+)= sum over r of dy[r, j]; weighted_sum:
// y[r] = sum over j of x[r, j] w[j]; its backward: dx[r, j] = dy[r] w[j], dw[j] = sum over r of
// dy[r] x[r, j]; squared_error: sum or mean of (y - target)^2.

#include "cuda/cuda_eager_ops.h"
#include "cuda/launch.cuh"
#include "cuda/partial_sums.h"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

constexpr int kept = 2;
constexpr int row_threads = 1024;
// Of column sums: a thread keeps up to 8 columns; 320 threads hold rows of 2560.
template <int N>
constexpr int column_kept = N == 8 ? 1 : 2;
constexpr int column_threads = 320;
constexpr int blocks_each = 3;
constexpr int flat_threads = 256;

// A short vector of a dtype known at run time: too few bytes to be worth a kernel per dtype.
struct AnyVector {
  void* data;
  Dtype dtype;

  explicit AnyVector(const Tensor& t) : data(t.data), dtype(t.dtype) {
    if (dtype == Dtype::i32 || dtype == Dtype::f64) throw_not_floating(dtype);
  }
  __device__ float get(std::int64_t i) const {
    switch (dtype) {
      case Dtype::bf16: return to_float(static_cast<const __nv_bfloat16*>(data)[i]);
      case Dtype::f16: return to_float(static_cast<const __half*>(data)[i]);
      default: return static_cast<const float*>(data)[i];
    }
  }
  __device__ void set(std::int64_t i, float x) const {
    switch (dtype) {
      case Dtype::bf16: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(x); break;
      case Dtype::f16: static_cast<__half*>(data)[i] = __float2half_rn(x); break;
      default: static_cast<float*>(data)[i] = x;
    }
  }
};

template <class X, class W, int N>
__global__ void __launch_bounds__(row_threads)
    weighted_sum_kernel(AnyVector y, const X* x, const W* w, std::int64_t rows, int cols) {
  wait_for_stream();
  const std::int64_t row = team_row();
  const int packs = row < rows ? cols / N : 0;
  const RowPacks<X, N, kept> xs(x + row * cols, packs);
  float sum = 0;
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<X, N> a = xs.get(k, i);
    const auto weight = Pack<W, N>::load(w + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += a[j] * weight[j];
  });
  sum = team_reduce(sum, Sum{});
  if (threadIdx.x == 0 && packs > 0) y.set(row, sum);
}

// partial[b] = sum over the rows of block b of dy
template <class G, int N>
__global__ void __launch_bounds__(column_threads, blocks_each)
    bias_backward_kernel(float* partial, const G* dy, std::int64_t rows, int cols) {
  wait_for_stream();
  const int packs = cols / N;
  ColumnSums<N, column_kept<N>> sums(partial + static_cast<std::int64_t>(blockIdx.x) * cols, packs);
  for_each_row_ahead<N, column_kept<N>>(dy, rows, cols, [&](std::int64_t, const auto& g) {
    for_each_pack<column_kept<N>>(packs,
                                  [&](int k, int i) { sums.add(k, i, widened(g.get(k, i))); });
  });
  sums.finish();
}

// The same of dy[r] x, writing dx, which may be x.
template <class X, class W, int N>
__global__ void __launch_bounds__(column_threads, blocks_each)
    weighted_sum_backward_kernel(X* dx, float* partial, AnyVector dy, const X* x, const W* w,
                                 std::int64_t rows, int cols) {
  wait_for_stream();
  const int packs = cols / N;
  const RowPacks<W, N, column_kept<N>> ws(w, packs);
  ColumnSums<N, column_kept<N>> dw(partial + static_cast<std::int64_t>(blockIdx.x) * cols, packs);
  float next_g = dy.get(blockIdx.x);
  for_each_row_ahead<N, column_kept<N>>(x, rows, cols, [&](std::int64_t row, const auto& xs) {
    const float g = next_g;
    if (row + gridDim.x < rows) next_g = dy.get(row + gridDim.x);
    for_each_pack<column_kept<N>>(packs, [&](int k, int i) {
      const Pack<X, N> a = xs.get(k, i);
      const Pack<W, N> weight = ws.get(k, i);
      Pack<float, N> term;
      Pack<X, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        term.element[j] = g * a[j];
        out.set(j, g * weight[j]);
      }
      dw.add(k, i, term);
      out.store(dx + row * cols + i * N);
    });
  });
  dw.finish();
}

// partial[b] = sum over the elements of block b of (y - target)^2
template <class Y, class T, int N>
__global__ void __launch_bounds__(flat_threads)
    squared_error_kernel(float* partial, const Y* y, const T* target, std::int64_t packs) {
  wait_for_stream();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * flat_threads;
  float sum = 0;
#pragma unroll 4
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * flat_threads + threadIdx.x;
       i < packs; i += step) {
    const auto a = Pack<Y, N>::load(y + i * N);
    const auto b = Pack<T, N>::load(target + i * N);
#pragma unroll
    for (int j = 0; j < N; ++j) sum += (a[j] - b[j]) * (a[j] - b[j]);
  }
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

int column_blocks(std::int64_t rows, int multiprocessors) {
  return static_cast<int>(
      std::min<std::int64_t>(rows, std::int64_t{blocks_each} * multiprocessors));
}

}  // namespace

void CudaEagerOps::bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) {
  const std::int64_t cols = dy.cols();
  const auto blocks = column_blocks(dy.rows(), multiprocessors());
  float* partial = scratch(blocks * cols);  // [blocks, cols]
  dispatch_cuda(dy.dtype, [&]<class T>() {
    dispatch_width<T, float>(cols, {dy.data}, [&]<int N>() {
      const int threads = block_for(cols / N, column_kept<N>, column_threads);
      launch({static_cast<unsigned>(blocks), static_cast<unsigned>(threads), stream()},
             bias_backward_kernel<T, N>, partial, static_cast<const T*>(dy.data), dy.rows(),
             static_cast<int>(cols));
    });
  });
  sum_partials(dbias, accumulate, partial, blocks, cols, stream());
}

void CudaEagerOps::weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) {
  const std::int64_t cols = x.cols();
  dispatch_cuda_pair(x.dtype, w.dtype, [&]<class X, class W>() {
    dispatch_width<X, W>(cols, {x.data, w.data}, [&]<int N>() {
      const Teams teams = teams_for(x.rows(), cols / N, kept, row_threads);
      launch({teams.grid, teams.block, stream()}, weighted_sum_kernel<X, W, N>, AnyVector(y),
             static_cast<const X*>(x.data), static_cast<const W*>(w.data), x.rows(),
             static_cast<int>(cols));
    });
  });
}

void CudaEagerOps::weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy,
                                         const Tensor& x, const Tensor& w) {
  if (dx.dtype != x.dtype) {
    throw InternalError("weighted_sum_backward: x and dx have different dtypes");
  }
  const std::int64_t cols = x.cols();
  const auto blocks = column_blocks(x.rows(), multiprocessors());
  float* partial = scratch(blocks * cols);  // [blocks, cols]
  dispatch_cuda_pair(x.dtype, w.dtype, [&]<class X, class W>() {
    dispatch_width<X, W>(cols, {dx.data, x.data, w.data}, [&]<int N>() {
      const int threads = block_for(cols / N, column_kept<N>, column_threads);
      launch({static_cast<unsigned>(blocks), static_cast<unsigned>(threads), stream()},
             weighted_sum_backward_kernel<X, W, N>, static_cast<X*>(dx.data), partial,
             AnyVector(dy), static_cast<const X*>(x.data), static_cast<const W*>(w.data), x.rows(),
             static_cast<int>(cols));
    });
  });
  sum_partials(dw, false, partial, blocks, cols, stream());
}

void CudaEagerOps::squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                                 Reduction reduction) {
  const std::int64_t n = y.numel();
  const float factor = reduction == Reduction::mean ? 1.0F / static_cast<float>(n) : 1.0F;
  const std::int64_t fill = std::int64_t{2048 / flat_threads} * multiprocessors();
  const auto blocks = std::min((n + flat_threads - 1) / flat_threads, fill);
  float* partial = scratch(blocks);
  dispatch_cuda_pair(y.dtype, target.dtype, [&]<class Y, class T>() {
    dispatch_width<Y, T>(n, {y.data, target.data}, [&]<int N>() {
      launch({static_cast<unsigned>(blocks), flat_threads, stream()}, squared_error_kernel<Y, T, N>,
             partial, static_cast<const Y*>(y.data), static_cast<const T*>(target.data), n / N);
    });
  });
  sum_values(loss, partial, blocks, factor, stream());
}

}  // namespace paceline
