// Cross-entropy: logsumexp[r] = max + log(sum of exp(logits[r] - max)), loss = mean over r of
// logsumexp[r] - logits[r, targets[r]]. Backward: dlogits = (exp(logits - logsumexp) -
// onehot(targets)) loss_scale / (R ranks). Rows whose target is no_target count in neither.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/online_softmax.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int kept = 4;
constexpr int forward_threads = 512;
constexpr int backward_threads = 256;

// The least number of slices of a row, with at most `most` threads per slice and `kept` packs per
// thread.
std::int64_t slices_of(std::int64_t packs, int most) {
  return (packs + kept * most - 1) / (kept * most);
}

// One block per row.
template <class T, int N>
__global__ void __launch_bounds__(forward_threads)
    cross_entropy_kernel(float* row_losses, float* logsumexp, const T* logits,
                         const std::int32_t* targets, int cols) {
  wait_for_stream();
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * cols;
  const MaxAndSum m = max_and_sum<T, N>(x, cols / N);
  if (threadIdx.x == 0) {
    const float log_sum = logsumexp_of(m);
    logsumexp[row] = log_sum;
    const int target = targets[row];
    row_losses[row] = target == no_target ? 0.0F : log_sum - to_float(x[target]);
  }
}

// The mean of row_losses over the rows with a target. One block.
__global__ void __launch_bounds__(1024)
    mean_of_targets_kernel(float* loss, const float* row_losses, const std::int32_t* targets,
                           std::int64_t rows) {
  wait_for_stream();
  float sum = 0;
  float count = 0;
#pragma unroll 4
  for (std::int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
    sum += row_losses[i];
    count += targets[i] == no_target ? 0.0F : 1.0F;
  }
  sum = block_reduce(sum, Sum{});
  count = block_reduce(count, Sum{});
  if (threadIdx.x == 0) *loss = sum * (1.0F / count);
}

// Block b handles slice b % slices of row b / slices. dlogits may be logits: a thread reads only
// the elements that it writes.
template <class T, class D, int N>
__global__ void __launch_bounds__(backward_threads)
    cross_entropy_backward_kernel(D* dlogits, const T* logits, const float* logsumexp,
                                  const std::int32_t* targets, const double* loss_scale,
                                  float count, int cols, int slices) {
  wait_for_stream();
  const std::int64_t row = blockIdx.x / slices;
  const int slice = static_cast<int>(blockIdx.x % slices) * kept * static_cast<int>(blockDim.x);
  const std::int64_t offset = row * cols + slice * N;
  const int packs = cols / N - slice;
  const RowPacks<T, N, kept> xs(logits + offset, packs);
  const float shift = logsumexp[row];
  const int target = targets[row] - slice * N;
  const float factor = targets[row] == no_target ? 0.0F : static_cast<float>(*loss_scale) / count;
  for_each_kept<kept>(packs, [&](int k, int i) {
    const Pack<T, N> a = xs.get(k, i);
    Pack<D, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float p = fast_exp(a[j] - shift);
      out.set(j, (i * N + j == target ? p - 1 : p) * factor);
    }
    out.store(dlogits + offset + i * N);
  });
}

}  // namespace

void CudaEagerOps::cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                                 const Tensor& targets) {
  const std::int64_t cols = logits.cols();
  const std::int64_t rows = logits.rows();
  float* row_losses = scratch(rows);
  dispatch_cuda(logits.dtype, [&]<class T>() {
    dispatch_width<T, T>(cols, {logits.data}, [&]<int N>() {
      // As few iterations of the loop as full blocks would take, with all threads busy in each.
      const std::int64_t iterations = slices_of(cols / N, forward_threads);
      const int threads =
          block_for((cols / N + iterations - 1) / iterations, kept, forward_threads);
      launch({static_cast<unsigned>(rows), threads, stream()}, cross_entropy_kernel<T, N>,
             row_losses, logsumexp.as<float>(), static_cast<const T*>(logits.data),
             targets.as<std::int32_t>(), static_cast<int>(cols));
    });
  });
  launch({1, 1024, stream()}, mean_of_targets_kernel, loss.as<float>(), row_losses,
         targets.as<std::int32_t>(), rows);
}

void CudaEagerOps::cross_entropy_backward(const Tensor& dlogits, const Tensor& logits,
                                          const Tensor& logsumexp, const Tensor& targets,
                                          const StepState& state) {
  const std::int64_t cols = logits.cols();
  const std::int64_t rows = logits.rows();
  const double* loss_scale =
      state.scalars.tensor().as<double>() + static_cast<int>(StepScalar::loss_scale);
  dispatch_cuda_pair(logits.dtype, dlogits.dtype, [&]<class T, class D>() {
    dispatch_width<T, D>(cols, {dlogits.data, logits.data}, [&]<int N>() {
      const std::int64_t slices = slices_of(cols / N, backward_threads);
      const int threads = block_for((cols / N + slices - 1) / slices, kept, backward_threads);
      launch({static_cast<unsigned>(rows * slices), threads, stream()},
             cross_entropy_backward_kernel<T, D, N>, static_cast<D*>(dlogits.data),
             static_cast<const T*>(logits.data), logsumexp.as<float>(), targets.as<std::int32_t>(),
             loss_scale, static_cast<float>((rows - state.without_target) * state.ranks),
             static_cast<int>(cols), static_cast<int>(slices));
    });
  });
}

}  // namespace paceline
