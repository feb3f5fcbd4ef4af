// SwiGLU (Shazeer, arXiv:2002.05202, eq. 6): z = silu(a) b, silu(a) = a sigmoid(a).
// Backward, with s = sigmoid(a): da = dz b s (1 + a (1 - s)), db = dz silu(a).

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/row_grid.cuh"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

// The fast division is accurate to 2 ulp; a correctly rounded one would take all instructions that
// a memory-bound kernel has time for. The result is 0 if exp overflows.
__device__ float sigmoid(float a) { return __fdividef(1.0F, 1.0F + expf(-a)); }

// z [R, F], gate_up [R, 2 F] = a | b; packs = F / N
template <class Z, class G, int N>
__global__ void __launch_bounds__(256) swiglu_kernel(Z* z, const G* gate_up, int packs) {
  wait_for_stream();
  const int pack = pack_of_row();
  if (pack >= packs) return;
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  const G* row = gate_up + blockIdx.x * 2 * width + pack * N;
  const auto a = Pack<G, N>::load(row);
  const auto b = Pack<G, N>::load(row + width);
  Pack<Z, N> out;
#pragma unroll
  for (int j = 0; j < N; ++j) out.set(j, a[j] * sigmoid(a[j]) * b[j]);
  out.store(z + blockIdx.x * width + pack * N);
}

// A thread reads only the elements that it writes, so that d_gate_up may be gate_up.
template <class D, class G, int N>
__global__ void __launch_bounds__(256)
    swiglu_backward_kernel(G* d_gate_up, const D* dz, const G* gate_up, int packs) {
  wait_for_stream();
  const int pack = pack_of_row();
  if (pack >= packs) return;
  const std::int64_t width = static_cast<std::int64_t>(packs) * N;
  const std::int64_t offset = blockIdx.x * 2 * width + pack * N;
  const auto a = Pack<G, N>::load(gate_up + offset);
  const auto b = Pack<G, N>::load(gate_up + offset + width);
  const auto g = Pack<D, N>::load(dz + blockIdx.x * width + pack * N);
  Pack<G, N> da;
  Pack<G, N> db;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float s = sigmoid(a[j]);
    da.set(j, g[j] * b[j] * s * (1 + a[j] * (1 - s)));
    db.set(j, g[j] * a[j] * s);
  }
  da.store(d_gate_up + offset);
  db.store(d_gate_up + offset + width);
}

}  // namespace

void CudaEagerOps::swiglu(const Tensor& z, const Tensor& gate_up) {
  const std::int64_t width = z.cols();
  dispatch_cuda_pair(z.dtype, gate_up.dtype, [&]<class Z, class G>() {
    dispatch_width<Z, G>(width, {z.data, gate_up.data}, [&]<int N>() {
      const RowGrid grid = row_grid(z.rows(), width / N);
      launch({grid.blocks, grid.threads, stream()}, swiglu_kernel<Z, G, N>, static_cast<Z*>(z.data),
             static_cast<const G*>(gate_up.data), static_cast<int>(width / N));
    });
  });
}

void CudaEagerOps::swiglu_backward(const Tensor& d_gate_up, const Tensor& dz,
                                   const Tensor& gate_up) {
  if (d_gate_up.dtype != gate_up.dtype) {
    throw InternalError("swiglu_backward: gate_up and its gradient have different dtypes");
  }
  const std::int64_t width = dz.cols();
  dispatch_cuda_pair(dz.dtype, gate_up.dtype, [&]<class D, class G>() {
    dispatch_width<D, G>(width, {d_gate_up.data, dz.data, gate_up.data}, [&]<int N>() {
      const RowGrid grid = row_grid(dz.rows(), width / N);
      launch({grid.blocks, grid.threads, stream()}, swiglu_backward_kernel<D, G, N>,
             static_cast<G*>(d_gate_up.data), static_cast<const D*>(dz.data),
             static_cast<const G*>(gate_up.data), static_cast<int>(width / N));
    });
  });
}

}  // namespace paceline
