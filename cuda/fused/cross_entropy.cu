// Cross-entropy and its gradient: logsumexp[r] = max + log(sum of exp(logits[r] - max)), loss =
// mean over r of logsumexp[r] - logits[r, targets[r]]; logits are overwritten with (exp(logits -
// logsumexp) - onehot(targets)) loss_scale / (R ranks). Rows whose target is no_target count in
// neither. Bitwise equal to cross_entropy() followed by cross_entropy_backward().

#include "cuda/cuda_fused_ops.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/online_softmax.cuh"
#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/step_scalars.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int max_threads = 512;
constexpr int kept = 4;

// One block per row of logits [rows, cols]. The row is read twice, the second time from the L1
// cache.
template <class T, int N>
__global__ void __launch_bounds__(max_threads, 2)
    cross_entropy_in_place_kernel(float* row_losses, T* logits, const std::int32_t* targets,
                                  const double* loss_scale, float count, int cols) {
  wait_for_stream();
  T* const x = logits + static_cast<std::int64_t>(blockIdx.x) * cols;
  const int packs = cols / N;
  const int target = targets[blockIdx.x];
  const bool counts = target != no_target;
  const float target_logit = counts ? to_float(x[target]) : 0.0F;
  const float logsumexp = logsumexp_of(max_and_sum<T, N>(x, packs));
  if (threadIdx.x == 0) row_losses[blockIdx.x] = counts ? logsumexp - target_logit : 0.0F;

  const float factor = counts ? static_cast<float>(*loss_scale) / count : 0.0F;
  const RowPacks<T, N, kept> xs(x, packs);
  for_each_pack<kept>(packs, [&](int k, int i) {
    const Pack<T, N> a = xs.get(k, i, x);
    Pack<T, N> gradient;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float p = fast_exp(a[j] - logsumexp);
      gradient.set(j, (i * N + j == target ? p - 1 : p) * factor);
    }
    gradient.store(x + i * N);
  });
}

// The number that cross_entropy() chooses, so that sums have the same order.
int threads_for(std::int64_t packs) {
  constexpr int at_once = kept * max_threads;
  const std::int64_t iterations = (packs + at_once - 1) / at_once;
  return block_for((packs + iterations - 1) / iterations, kept, max_threads);
}

}  // namespace

void CudaFusedOps::cross_entropy_in_place(const Tensor& loss, const Tensor& logits,
                                          const Tensor& targets, const StepState& state,
                                          std::int64_t rows_of_step) {
  const std::int64_t cols = logits.cols();
  const std::int64_t rows = logits.rows();
  const std::int64_t counted = rows_of_step - state.without_target;
  float* row_losses = scratch(rows);
  const double* loss_scale = scalars_of(state) + static_cast<int>(StepScalar::loss_scale);
  dispatch_cuda(logits.dtype, [&]<class T>() {
    dispatch_width<T, T>(cols, {logits.data}, [&]<int N>() {
      launch({static_cast<unsigned>(rows), static_cast<unsigned>(threads_for(cols / N)), stream()},
             cross_entropy_in_place_kernel<T, N>, row_losses, static_cast<T*>(logits.data),
             targets.as<std::int32_t>(), loss_scale, static_cast<float>(counted * state.ranks),
             static_cast<int>(cols));
    });
  });
  sum_values(loss, row_losses, rows, 1.0F / static_cast<float>(counted), stream());
}

}  // namespace paceline
