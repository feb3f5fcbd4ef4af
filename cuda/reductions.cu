// Sums over rows and columns: bias_backward: dbias[j] (+)= sum over r of dy[r, j]; weighted_sum:
// y[r] = sum over j of x[r, j] w[j]; its backward: dx[r, j] = dy[r] w[j], dw[j] = sum over r of
// dy[r] x[r, j]; squared_error: sum or mean of (y - target)^2.

#include "cuda/cuda_eager_ops.h"
#include "cuda/launch.cuh"
#include "cuda/partial_sums.h"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;
constexpr int row_threads = 1024;
constexpr int column_lanes = 32;  // of a block of column sums: packs of columns,
constexpr int row_lanes = 8;      // and rows at a time
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

// What a column sum adds for one pack of row r: dy itself, or dy[r] x, writing dx on the way.
template <class X, int N>
struct BiasTerm {
  static constexpr int width = N;
  static constexpr int unroll = 4;
  const X* dy;
  int cols;

  __device__ Pack<float, N> operator()(std::int64_t row, int column) const {
    return widened(Pack<X, N>::load(dy + row * cols + column));
  }
};

template <class X, class W, int N>
struct WeightTerm {
  static constexpr int width = N;
  static constexpr int unroll = 1;  // loads wait for the stores to dx, which may be x
  X* dx;
  AnyVector dy;
  const X* x;
  const W* w;
  int cols;

  __device__ Pack<float, N> operator()(std::int64_t row, int column) const {
    const auto a = Pack<X, N>::load(x + row * cols + column);
    const auto weight = Pack<W, N>::load(w + column);
    const float g = dy.get(row);
    Pack<float, N> term;
    Pack<X, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      term.element[j] = g * a[j];
      out.set(j, g * weight[j]);
    }
    out.store(dx + row * cols + column);
    return term;
  }
};

// partial[group] = sum over the rows of a group of term(row, .): those that are blockIdx.y
// row_lanes + threadIdx.y modulo gridDim.y row_lanes.
template <class Term>
__global__ void __launch_bounds__(column_lanes* row_lanes)
    column_sums_kernel(float* partial, Term term, std::int64_t rows, int cols) {
  wait_for_stream();
  constexpr int n = Term::width;
  __shared__ Pack<float, n> sums[row_lanes][column_lanes];
  const int column = static_cast<int>(blockIdx.x * column_lanes + threadIdx.x) * n;
  Pack<float, n> sum{};
  if (column < cols) {
    const std::int64_t step = static_cast<std::int64_t>(gridDim.y) * row_lanes;
#pragma unroll Term::unroll
    for (std::int64_t r = blockIdx.y * row_lanes + threadIdx.y; r < rows; r += step) {
      const Pack<float, n> some = term(r, column);
#pragma unroll
      for (int j = 0; j < n; ++j) sum.element[j] += some[j];
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || column >= cols) return;
#pragma unroll
  for (int y = 1; y < row_lanes; ++y) {
#pragma unroll
    for (int j = 0; j < n; ++j) sum.element[j] += sums[y][threadIdx.x][j];
  }
  sum.store(partial + static_cast<std::int64_t>(blockIdx.y) * cols + column);
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

// Blocks of column sums: enough to fill the multiprocessors, with 4 rows per thread or more.
dim3 column_grid(std::int64_t rows, std::int64_t packs, int multiprocessors) {
  constexpr int blocks_each = 2048 / (column_lanes * row_lanes);
  const std::int64_t across = (packs + column_lanes - 1) / column_lanes;
  const std::int64_t fill = (std::int64_t{blocks_each} * multiprocessors + across - 1) / across;
  const std::int64_t useful = (rows + 4 * row_lanes - 1) / (4 * row_lanes);
  return {static_cast<unsigned>(across), static_cast<unsigned>(std::min(fill, useful))};
}

}  // namespace

void CudaEagerOps::bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) {
  const std::int64_t cols = dy.cols();
  dispatch_cuda(dy.dtype, [&]<class T>() {
    dispatch_width<T, T>(cols, {dy.data}, [&]<int N>() {
      const dim3 grid = column_grid(dy.rows(), cols / N, multiprocessors());
      float* partial = scratch(grid.y * cols);  // [groups, cols]
      BiasTerm<T, N> term{static_cast<const T*>(dy.data), static_cast<int>(cols)};
      launch({grid, dim3(column_lanes, row_lanes), stream()}, column_sums_kernel<decltype(term)>,
             partial, term, dy.rows(), static_cast<int>(cols));
      sum_partials(dbias, accumulate, partial, static_cast<int>(grid.y), cols, stream());
    });
  });
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
  dispatch_cuda_pair(x.dtype, w.dtype, [&]<class X, class W>() {
    dispatch_width<X, W>(cols, {dx.data, x.data, w.data}, [&]<int N>() {
      const dim3 grid = column_grid(x.rows(), cols / N, multiprocessors());
      float* partial = scratch(grid.y * cols);  // [groups, cols]
      WeightTerm<X, W, N> term{static_cast<X*>(dx.data), AnyVector(dy),
                               static_cast<const X*>(x.data), static_cast<const W*>(w.data),
                               static_cast<int>(cols)};
      launch({grid, dim3(column_lanes, row_lanes), stream()}, column_sums_kernel<decltype(term)>,
             partial, term, x.rows(), static_cast<int>(cols));
      sum_partials(dw, false, partial, static_cast<int>(grid.y), cols, stream());
    });
  });
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
