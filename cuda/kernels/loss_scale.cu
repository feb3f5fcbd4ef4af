// The operations before and after AdamW in a step: the search for gradients that are not finite,
// the scalars of the step, and the loss scale.

#include <algorithm>

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/step_scalars.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;
constexpr int packs = 4;  // per thread, loaded together
constexpr int block_bytes = packs * threads * 16;

// found_inf = 1 if x [n] has an element that is not finite: 0 times it is NaN, and so is any sum
// with it.
template <class T>
__global__ void __launch_bounds__(threads)
    check_finite_kernel(double* scalars, const T* x, std::int64_t n, bool aligned) {
  wait_for_stream();
  constexpr int width = pack_size<T>;
  constexpr int piece = block_bytes / sizeof(T);
  float poison = 0;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * piece; first < n;
       first += static_cast<std::int64_t>(gridDim.x) * piece) {
    if (aligned && first + piece <= n) {
      Pack<T, width> pack[packs];
#pragma unroll
      for (int k = 0; k < packs; ++k) {
        const int offset = (k * threads + static_cast<int>(threadIdx.x)) * width;
        pack[k] = Pack<T, width>::load(x + first + offset);
      }
#pragma unroll
      for (int k = 0; k < packs; ++k) {
#pragma unroll
        for (int j = 0; j < width; ++j) poison = fmaf(pack[k][j], 0, poison);
      }
    } else {
      for (std::int64_t i = first + threadIdx.x; i < first + piece && i < n; i += threads) {
        poison = fmaf(to_float(x[i]), 0, poison);
      }
    }
  }
  if (isnan(poison)) at(scalars, StepScalar::found_inf) = 1;
}

// One thread, with the arithmetic of CpuOps::begin_optimizer_step().
__global__ void begin_step_kernel(double* scalars, double beta1, double beta2, bool loss_scaling) {
  wait_for_stream();
  constexpr double growth_interval = 2000;  // torch.amp.GradScaler's, as are the factors 2 and 1/2
  double& loss_scale = at(scalars, StepScalar::loss_scale);
  double& good_steps = at(scalars, StepScalar::good_steps);
  at(scalars, StepScalar::gradient_scale) = 1 / loss_scale;
  const bool skipped = at(scalars, StepScalar::found_inf) != 0;
  if (!skipped) {
    const double step = at(scalars, StepScalar::step) += 1;
    at(scalars, StepScalar::bias_correction1) = 1 - pow(beta1, step);
    at(scalars, StepScalar::bias_correction2) = 1 - pow(beta2, step);
  }
  if (!loss_scaling) return;
  good_steps = skipped ? 0 : good_steps + 1;
  if (skipped) loss_scale /= 2;
  if (good_steps == growth_interval) {
    loss_scale *= 2;
    good_steps = 0;
  }
}

__global__ void end_step_kernel(double* scalars) {
  wait_for_stream();
  at(scalars, StepScalar::found_inf) = 0;
}

}  // namespace

void CudaEagerOps::check_finite(const StepState& state, const Tensor& x) {
  const std::int64_t n = x.numel();
  if (n == 0) return;
  dispatch_cuda(x.dtype, [&]<class T>() {
    constexpr int piece = block_bytes / sizeof(T);
    const std::int64_t blocks =
        std::min<std::int64_t>((n + piece - 1) / piece, 8 * multiprocessors());
    launch({static_cast<unsigned>(blocks), threads, stream()}, check_finite_kernel<T>,
           scalars_of(state), static_cast<const T*>(x.data), n, is_aligned(x.data, 16));
  });
}

void CudaEagerOps::begin_optimizer_step(const StepState& state, const AdamWConfig& config) {
  launch({1, 1, stream()}, begin_step_kernel, scalars_of(state), config.beta1, config.beta2,
         precision().loss_scaling);
}

void CudaEagerOps::end_optimizer_step(const StepState& state) {
  launch({1, 1, stream()}, end_step_kernel, scalars_of(state));
}

}  // namespace paceline
