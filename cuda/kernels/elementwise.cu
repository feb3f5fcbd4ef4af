// Elementwise operations: cast, fill, add, scale, SGD.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/map.cuh"
#include "cuda/runtime/launch.cuh"

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
