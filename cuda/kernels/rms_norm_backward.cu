// RMSNorm's backward pass: with xh = x rstd and g = dy w, dx = dx_in + rstd (g - xh mean(g xh)) and
// dw (+)= sum over rows of dy xh. In mixed precision dx is the residual stream's gradient, which
// the linear layer before reads in the compute dtype: that copy can be written beside it.

#include "cuda/cuda_eager_ops.h"
#include "cuda/kernels/partial_sums.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

// As many as the registers of a multiprocessor allow: 8 teams at 768 columns, 3 at 1600, 2 at 2560.
constexpr int block_threads = 768;

template <class X, class G, int N>
struct Row {
  RowPacks<X, N, column_kept<N>> x;
  RowPacks<G, N, column_kept<N>> dy;
  RowPacks<X, N, column_kept<N>> dx_in;
  float rstd;
};

// The sum over each team of a block, for teams of whole warps. `turn` alternates between 0 and 1:
// with two buffers the barrier of one call separates the reads of the previous call from the writes
// of the next.
__device__ float sum_of_team(float x, int turn) {
  __shared__ float warps[2][block_threads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warps_of_team = static_cast<int>(blockDim.x) / 32;
  float* const team = warps[turn] + static_cast<int>(threadIdx.y) * warps_of_team;
  x = warp_reduce(x, Sum{});
  if (lane == 0) team[threadIdx.x / 32] = x;
  __syncthreads();
  return warp_reduce(lane < warps_of_team ? team[lane] : 0, Sum{});
}

// dx, rounded, dx_in, dy, x [rows, cols]; partial [blocks, cols]; w [cols]; rstd [rows]. rounded
// and dx_in may be null; dx may be dx_in. Block b has rows b, b + gridDim.x, ..., dealt to its
// teams in turn, so that sums for dw stay in registers. A team loads its next row before it reduces
// the current one; it writes only to the current row of dx.
template <class X, class G, int N>
__global__ void __launch_bounds__(block_threads)
    rms_norm_backward_kernel(X* dx, G* rounded, const X* dx_in, float* partial, const G* dy,
                             const X* x, const float* w, const float* rstd, int rows, int cols) {
  wait_for_stream();
  constexpr int kept = column_kept<N>;
  const int packs = cols / N;
  ColumnSums<N, kept> dw(partial + static_cast<std::int64_t>(blockIdx.x) * cols, packs);
  const auto packs_of = [&](int row) { return row < rows ? packs : 0; };
  const auto request = [&](int row) {
    const int wanted = packs_of(row);
    const std::int64_t offset = static_cast<std::int64_t>(row) * cols;
    return Row<X, G, N>{{x + offset, wanted},
                        {dy + offset, wanted},
                        {dx_in + offset, dx_in == nullptr ? 0 : wanted},
                        row < rows ? rstd[row] : 0};
  };
  const int step = static_cast<int>(gridDim.x * blockDim.y);
  int row = static_cast<int>(blockIdx.x + threadIdx.y * gridDim.x);
  Row<X, G, N> now = request(row);
  int turn = 0;
  for (int first = static_cast<int>(blockIdx.x); first < rows;
       first += step, row += step, turn ^= 1) {
    const Row<X, G, N> next = request(row + step);
    const std::int64_t offset = static_cast<std::int64_t>(row) * cols;
    const float inverse = now.rstd;
    float sum = 0;
    for_each_pack<kept>(packs_of(row), [&](int k, int i) {
      const Pack<X, N> a = now.x.get(k, i, x + offset);
      const Pack<G, N> g = now.dy.get(k, i, dy + offset);
      const auto weight = Pack<float, N>::load(w + i * N);
      Pack<float, N> term;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float normed = a[j] * inverse;
        sum += g[j] * weight[j] * normed;
        term.element[j] = g[j] * normed;
      }
      dw.add(k, i, term);
    });
    const float mean = sum_of_team(sum, turn) / static_cast<float>(cols);
    for_each_pack<kept>(packs_of(row), [&](int k, int i) {
      const Pack<X, N> a = now.x.get(k, i, x + offset);
      const Pack<G, N> g = now.dy.get(k, i, dy + offset);
      const auto weight = Pack<float, N>::load(w + i * N);
      Pack<X, N> in{};
      if (dx_in != nullptr) in = now.dx_in.get(k, i, dx_in + offset);
      Pack<X, N> out;
      Pack<G, N> low;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        out.set(j, in[j] + inverse * (g[j] * weight[j] - a[j] * inverse * mean));
        low.set(j, out[j]);
      }
      out.store(dx + offset + i * N);
      if (rounded != nullptr) low.store(rounded + offset + i * N);
    });
    now = next;
  }
  __shared__ Pack<float, N> sums[block_threads * kept];
  if (blockDim.y > 1) {
    dw.finish_teams(sums);
  } else {
    dw.finish();
  }
}

struct Blocks {
  int count;
  dim3 threads;  // threads per team, teams
};

// One block of many teams per multiprocessor, because every block writes a row of partial sums. A
// team that cannot keep its packs in registers has a block of its own: its sums stay in memory.
template <int N>
Blocks blocks_for(std::int64_t rows, std::int64_t packs, int multiprocessors) {
  const int threads = block_for(packs, column_kept<N>, column_threads);
  const int teams = packs <= column_kept<N> * threads ? block_threads / threads : 1;
  const int blocks = column_blocks(rows, block_threads / (threads * teams) * multiprocessors);
  return {blocks, dim3(static_cast<unsigned>(threads), static_cast<unsigned>(teams))};
}

}  // namespace

void CudaEagerOps::rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw,
                                     const Tensor& dy, const Tensor& x, const Tensor& w,
                                     const Tensor& rstd, bool accumulate_dw) {
  rms_norm_backward(dx, {}, dx_in, dw, dy, x, w, rstd, accumulate_dw);
}

void CudaEagerOps::rms_norm_backward(const Tensor& dx, const Tensor& rounded, const Tensor& dx_in,
                                     const Tensor& dw, const Tensor& dy, const Tensor& x,
                                     const Tensor& w, const Tensor& rstd, bool accumulate_dw) {
  if (dx.dtype != x.dtype || (!dx_in.empty() && dx_in.dtype != x.dtype)) {
    throw InternalError("rms_norm_backward: x, dx and dx_in have different dtypes");
  }
  if (!rounded.empty() && rounded.dtype != dy.dtype) {
    throw InternalError("rms_norm_backward: the rounded dx and dy have different dtypes");
  }
  const std::int64_t rows = x.rows();
  const std::int64_t cols = x.cols();
  dispatch_cuda_pair(x.dtype, dy.dtype, [&]<class X, class G>() {
    dispatch_width<X, G>(
        cols, {dx.data, rounded.data, dx_in.data, dy.data, x.data, w.data}, [&]<int N>() {
          const Blocks blocks = blocks_for<N>(rows, cols / N, multiprocessors());
          float* partial = scratch(blocks.count * cols);  // [blocks, cols]
          launch({static_cast<unsigned>(blocks.count), blocks.threads, stream()},
                 rms_norm_backward_kernel<X, G, N>, static_cast<X*>(dx.data),
                 static_cast<G*>(rounded.data), static_cast<const X*>(dx_in.data), partial,
                 static_cast<const G*>(dy.data), static_cast<const X*>(x.data), w.as<float>(),
                 rstd.as<float>(), static_cast<int>(rows), static_cast<int>(cols));
          sum_partials(dw, accumulate_dw, partial, blocks.count, cols, stream());
        });
  });
}

}  // namespace paceline
