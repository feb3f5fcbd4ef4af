// Elementwise operations of the course's toy models: ReLU, bias, the gradient of the squared error.

#include "cuda/cuda_toy_ops.h"
#include "cuda/kernels/map.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }  // NaN stays NaN
};
struct ReluBackward {
  __device__ float operator()(float dy, float y) const { return y > 0 ? dy : 0; }
};
struct ScaledDifference {
  float factor;
  __device__ float operator()(float a, float b) const { return (a - b) * factor; }
};

// blockIdx.x selects packs of columns, whose bias stays in registers; blockIdx.y handles every
// gridDim.y-th row.
template <class Y, class B, int N>
__global__ void add_bias_kernel(Y* y, const B* bias, std::int64_t rows, std::int64_t cols) {
  wait_for_stream();
  const std::int64_t j = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * N;
  if (j >= cols) return;
  const auto b = Pack<B, N>::load(bias + j);
  for (std::int64_t r = blockIdx.y; r < rows; r += gridDim.y) {
    Y* at = y + r * cols + j;
    map_pack<Y, N>(Add{}, Pack<Y, N>::load(at), b).store(at);
  }
}

}  // namespace

void CudaToyOps::relu(const Tensor& y, const Tensor& x) { map(stream_, y, x, Relu{}); }

void CudaToyOps::relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  map(stream_, dx, dy, y, ReluBackward{});
}

void CudaToyOps::add_bias(const Tensor& y, const Tensor& bias) {
  const std::int64_t cols = y.cols();
  const std::int64_t rows = y.rows();
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(bias.dtype, [&]<class B>() {
      dispatch_width<Y, B>(cols, {y.data, bias.data}, [&]<int N>() {
        const std::int64_t across = (cols / N + map_threads - 1) / map_threads;
        const std::int64_t down = (8 * multiprocessors_ + across - 1) / across;
        const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min(rows, down)));
        launch({grid, map_threads, stream_}, add_bias_kernel<Y, B, N>, static_cast<Y*>(y.data),
               static_cast<const B*>(bias.data), rows, cols);
      });
    });
  });
}

void CudaToyOps::squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                                        Reduction reduction) {
  const double factor = 2 * factor_of(reduction, y.numel());
  map(stream_, dy, y, target, ScaledDifference{static_cast<float>(factor)});
}

}  // namespace paceline
