// Rotary position embedding (Su et al., arXiv:2104.09864, eq. 34): (x0, x1) = (c x0 - s x1, s x0 +
// c x1) for neighbouring pairs, in place; the inverse rotates with -s.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/row_grid.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

// N neighbouring elements in accesses of A elements; unaligned views have A = 1.
template <class T, int N, int A>
__device__ void load(float (&x)[N], const T* from) {
#pragma unroll
  for (int i = 0; i < N; i += A) {
    const auto pack = Pack<T, A>::load(from + i);
#pragma unroll
    for (int j = 0; j < A; ++j) x[i + j] = pack[j];
  }
}

template <class T, int N, int A>
__device__ void rotate_and_store(T* to, const float (&x)[N], const float (&angle)[N],
                                 float direction) {
#pragma unroll
  for (int i = 0; i < N; i += A) {
    Pack<T, A> pack;
#pragma unroll
    for (int j = i; j < i + A; ++j) {
      const float c = angle[j / 2 * 2];
      const float s = angle[j / 2 * 2 + 1] * direction;
      pack.set(j - i, j % 2 == 0 ? c * x[j] - s * x[j + 1] : s * x[j - 1] + c * x[j]);
    }
    pack.store(to + i);
  }
}

// qkv [B, T, 3, H, d], table [T, d/2, 2]; packs = H d / N. blockIdx.x is the position in [B, T]. A
// thread rotates the same N elements of q and of k, which have the same angles.
template <class T, int N, int A>
__global__ void __launch_bounds__(256)
    rope_kernel(T* qkv, const float* table, int context, int packs, int head_dim, float direction) {
  wait_for_stream();
  const int pack = pack_of_row();
  if (pack >= packs) return;
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  T* q = qkv + blockIdx.x * 3 * width + pack * N;
  T* k = q + width;
  float xq[N];
  float xk[N];
  float angle[N];
  load<T, N, A>(xq, q);
  load<T, N, A>(xk, k);
  const int position = static_cast<int>(blockIdx.x) % context;
  const std::int64_t angles = static_cast<std::int64_t>(position) * head_dim + pack * N % head_dim;
  load<float, N, A>(angle, table + angles);
  rotate_and_store<T, N, A>(q, xq, angle, direction);
  rotate_and_store<T, N, A>(k, xk, angle, direction);
}

}  // namespace

void CudaEagerOps::rope(const Tensor& qkv, const Tensor& table, bool inverse) {
  const std::int64_t head_dim = qkv.shape[4];
  const std::int64_t width = qkv.shape[3] * head_dim;  // of q
  const float direction = inverse ? -1 : 1;
  dispatch_cuda(qkv.dtype, [&]<class T>() {
    dispatch_width<T, T>(head_dim, {qkv.data, table.data}, [&]<int A>() {
      constexpr int n = A == 1 ? 2 : A;
      const RowGrid grid = row_grid(qkv.shape[0] * qkv.shape[1], width / n);
      launch({grid.blocks, grid.threads, stream()}, rope_kernel<T, n, A>, static_cast<T*>(qkv.data),
             table.as<float>(), static_cast<int>(qkv.shape[1]), static_cast<int>(width / n),
             static_cast<int>(head_dim), direction);
    });
  });
}

}  // namespace paceline
