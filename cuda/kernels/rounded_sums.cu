// Sums and norms with every operation rounded to a dtype (core/summation.h, core/rounded_norm.h).
// Their purpose is the rounding, not speed: one thread computes a whole sum or row.

#include "cuda/cuda_toy_ops.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int row_threads = 32;

template <class T>
struct RoundTo {
  __device__ float operator()(float x) const { return to_float(from_float<T>(x)); }
};

template <class T>
struct Elements {
  const T* x;
  __device__ float operator()(std::int64_t i) const { return to_float(x[i]); }
};

template <class T>
struct WriteElements {
  T* y;
  __device__ void operator()(std::int64_t i, float value) const { y[i] = from_float<T>(value); }
};

template <class S, class X>
__global__ void sum_kernel(S* total, const X* x, std::int64_t n, Summation how) {
  wait_for_stream();
  *total = from_float<S>(sum_of<float>(how, n, Elements<X>{x}, RoundTo<S>{}));
}

template <class T>
__global__ void rounded_norm_kernel(T* y, const T* x, std::int64_t rows, std::int64_t cols,
                                    NormKind kind, float eps) {
  wait_for_stream();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * row_threads + threadIdx.x;
  if (row >= rows) return;
  rounded_norm_row<float>(kind, cols, eps, Elements<T>{x + row * cols},
                          WriteElements<T>{y + row * cols}, RoundTo<T>{});
}

}  // namespace

void CudaToyOps::sum(const Tensor& total, const Tensor& x, Summation how) {
  dispatch_cuda_pair(total.dtype, x.dtype, [&]<class S, class X>() {
    launch({1, 1, stream_}, sum_kernel<S, X>, static_cast<S*>(total.data),
           static_cast<const X*>(x.data), x.numel(), how);
  });
}

void CudaToyOps::rounded_norm(const Tensor& y, const Tensor& x, NormKind kind, double eps) {
  if (y.dtype != x.dtype) throw InternalError("rounded_norm: x and y have different dtypes");
  const auto blocks = static_cast<unsigned>((x.rows() + row_threads - 1) / row_threads);
  dispatch_cuda(x.dtype, [&]<class T>() {
    launch({blocks, row_threads, stream_}, rounded_norm_kernel<T>, static_cast<T*>(y.data),
           static_cast<const T*>(x.data), x.rows(), x.cols(), kind, static_cast<float>(eps));
  });
}

}  // namespace paceline
