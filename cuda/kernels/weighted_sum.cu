// weighted_sum: y[r] = sum over j of x[r, j] w[j]; its backward: dx[r, j] = dy[r] w[j], dw[j] = sum
// over r of dy[r] x[r, j].

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 2;
constexpr int row_threads = 1024;
constexpr int blocks_each = 3;  // blocks of column sums per multiprocessor

// A short vector whose dtype is known only at run time: it has too few bytes to be worth a kernel
// per dtype.
struct AnyVector {
  void* data;
  Dtype dtype;

  // Throws InternalError for a dtype without a device type.
  explicit AnyVector(const Tensor& t) : data(t.data), dtype(t.dtype) {
    dispatch_cuda(dtype, [&]<class T>() {});
  }
  __device__ float get(std::int64_t i) const {
    switch (dtype) {
      case Dtype::f32: return static_cast<const float*>(data)[i];
      case Dtype::bf16: return to_float(static_cast<const __nv_bfloat16*>(data)[i]);
      case Dtype::f16: return to_float(static_cast<const __half*>(data)[i]);
      case Dtype::f64:
      case Dtype::i32: break;
    }
    __trap();
  }
  __device__ void set(std::int64_t i, float x) const {
    switch (dtype) {
      case Dtype::f32: static_cast<float*>(data)[i] = x; return;
      case Dtype::bf16: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16_rn(x); return;
      case Dtype::f16: static_cast<__half*>(data)[i] = __float2half_rn(x); return;
      case Dtype::f64:
      case Dtype::i32: break;
    }
    __trap();
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

// Writes dx, which may be x, and partial[b] = sum over the rows of block b of dy[r] x[r].
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

}  // namespace

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
  const auto blocks = column_blocks(x.rows(), blocks_each * multiprocessors());
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

}  // namespace paceline
