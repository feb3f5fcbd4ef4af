// Operations on elements: cast, fill, add, scale, and those of the course's toy models.

#include "cuda/cuda_eager_ops.h"
#include "cuda/launch.cuh"
#include "cuda/map.cuh"
#include "cuda/rows.cuh"

namespace paceline {

namespace {

struct Same {
  __device__ float operator()(float x) const { return x; }
};
struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Scale {
  float factor;
  __device__ float operator()(float x) const { return x * factor; }
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
struct Descend {
  float rate;
  __device__ float operator()(float p, float g) const { return p - rate * g; }
};

template <class T>
__global__ void __launch_bounds__(map_threads)
    fill_kernel(T* x, std::int64_t n, bool aligned, T value) {
  wait_for_stream();
  constexpr int width = pack_size<T>;
  constexpr int per_block = 4 * map_threads * width;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * per_block;
  const std::int64_t end = first + per_block;
  if (aligned && end <= n) {
    Pack<T, width> pack;
#pragma unroll
    for (int j = 0; j < width; ++j) pack.element[j] = value;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      pack.store(x + first + (k * map_threads + static_cast<int>(threadIdx.x)) * width);
    }
    return;
  }
  for (std::int64_t i = first + threadIdx.x; i < end && i < n; i += map_threads) x[i] = value;
}

template <class T>
void launch_fill(cudaStream_t stream, const Tensor& x, T value) {
  constexpr std::int64_t per_block = 4 * map_threads * pack_size<T>;
  const std::int64_t n = x.numel();
  if (n == 0) return;
  launch({static_cast<unsigned>((n + per_block - 1) / per_block), map_threads, stream},
         fill_kernel<T>, static_cast<T*>(x.data), n, is_aligned(x.data, 16), value);
}

// blockIdx.x takes packs of columns, whose bias stays in registers; blockIdx.y every gridDim.y-th
// row.
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

void CudaEagerOps::cast(const Tensor& to, const Tensor& from) { map(stream(), to, from, Same{}); }

void CudaEagerOps::fill(const Tensor& x, double value) {
  if (x.dtype == Dtype::i32) {
    launch_fill(stream(), x, static_cast<std::int32_t>(value));
    return;
  }
  dispatch_cuda(x.dtype, [&]<class T>() {
    launch_fill(stream(), x, static_cast<T>(static_cast<float>(value)));
  });
}

void CudaEagerOps::add(const Tensor& y, const Tensor& a, const Tensor& b) {
  map(stream(), y, a, b, Add{});
}

void CudaEagerOps::scale(const Tensor& x, double factor) {
  dispatch_cuda(x.dtype, [&]<class T>() {
    T* data = static_cast<T*>(x.data);
    launch_map(stream(), x.numel(), Scale{static_cast<float>(factor)}, data,
               static_cast<const T*>(data));
  });
}

void CudaEagerOps::relu(const Tensor& y, const Tensor& x) { map(stream(), y, x, Relu{}); }

void CudaEagerOps::relu_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) {
  map(stream(), dx, dy, y, ReluBackward{});
}

void CudaEagerOps::add_bias(const Tensor& y, const Tensor& bias) {
  const std::int64_t cols = y.cols();
  const std::int64_t rows = y.rows();
  dispatch_cuda(y.dtype, [&]<class Y>() {
    dispatch_cuda(bias.dtype, [&]<class B>() {
      dispatch_width<Y, B>(cols, {y.data, bias.data}, [&]<int N>() {
        const std::int64_t across = (cols / N + map_threads - 1) / map_threads;
        const std::int64_t down = (8 * multiprocessors() + across - 1) / across;
        const dim3 grid(static_cast<unsigned>(across), static_cast<unsigned>(std::min(rows, down)));
        launch({grid, map_threads, stream()}, add_bias_kernel<Y, B, N>, static_cast<Y*>(y.data),
               static_cast<const B*>(bias.data), rows, cols);
      });
    });
  });
}

// loss = factor sum((y - target)^2) => dy = 2 factor (y - target)
void CudaEagerOps::squared_error_backward(const Tensor& dy, const Tensor& y, const Tensor& target,
                                          Reduction reduction) {
  const double factor = reduction == Reduction::mean ? 2 / static_cast<double>(y.numel()) : 2;
  map(stream(), dy, y, target, ScaledDifference{static_cast<float>(factor)});
}

void CudaEagerOps::sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) {
  dispatch_cuda(parameters.dtype, [&]<class P>() {
    dispatch_cuda(gradients.dtype, [&]<class G>() {
      P* p = static_cast<P*>(parameters.data);
      launch_map(stream(), parameters.numel(), Descend{static_cast<float>(learning_rate)}, p,
                 static_cast<const P*>(p), static_cast<const G*>(gradients.data));
    });
  });
}

}  // namespace paceline
