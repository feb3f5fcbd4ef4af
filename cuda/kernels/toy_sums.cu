// bias_backward: dbias[j] (+)= sum over r of dy[r, j]; squared_error: sum or mean of
// (y - target)^2.

#include "cuda/cuda_toy_ops.h"
#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int blocks_each = 3;  // blocks of column sums per multiprocessor
constexpr int flat_threads = 256;

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

}  // namespace

void CudaToyOps::bias_backward(const Tensor& dbias, const Tensor& dy, bool accumulate) {
  const std::int64_t cols = dy.cols();
  const auto blocks = column_blocks(dy.rows(), blocks_each * multiprocessors_);
  float* partial = scratch_.floats(blocks * cols);  // [blocks, cols]
  dispatch_cuda(dy.dtype, [&]<class T>() {
    dispatch_width<T, float>(cols, {dy.data}, [&]<int N>() {
      const int threads = block_for(cols / N, column_kept<N>, column_threads);
      launch({static_cast<unsigned>(blocks), static_cast<unsigned>(threads), stream_},
             bias_backward_kernel<T, N>, partial, static_cast<const T*>(dy.data), dy.rows(),
             static_cast<int>(cols));
    });
  });
  sum_partials(dbias, accumulate, partial, blocks, cols, stream_);
}

void CudaToyOps::squared_error(const Tensor& loss, const Tensor& y, const Tensor& target,
                               Reduction reduction) {
  const std::int64_t n = y.numel();
  const std::int64_t fill = std::int64_t{2048 / flat_threads} * multiprocessors_;
  const auto blocks = std::min((n + flat_threads - 1) / flat_threads, fill);
  float* partial = scratch_.floats(blocks);
  dispatch_cuda_pair(y.dtype, target.dtype, [&]<class Y, class T>() {
    dispatch_width<Y, T>(n, {y.data, target.data}, [&]<int N>() {
      launch({static_cast<unsigned>(blocks), flat_threads, stream_}, squared_error_kernel<Y, T, N>,
             partial, static_cast<const Y*>(y.data), static_cast<const T*>(target.data), n / N);
    });
  });
  sum_values(loss, partial, blocks, static_cast<float>(factor_of(reduction, n)), stream_);
}

}  // namespace paceline
