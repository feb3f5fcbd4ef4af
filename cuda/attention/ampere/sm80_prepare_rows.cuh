#pragma once
// The first kernel of the backward pass: L log2(e) and D = rowsum(dO O) of every query
// (FlashAttention-2, algorithm 2, line 4), padded to whole tiles. It also zeros the sums of dQ.
// Eight lanes share a row.

#include "cuda/ampere/tile.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

inline constexpr int prepare_rows_threads = 256;

// logsumexp [B, H, T]; dq_sums [B, H, padded, d] or null
template <class T>
__global__ void __launch_bounds__(prepare_rows_threads)
    sm80_prepare_rows_kernel(QueryRows rows, float* dq_sums, StridedHeads<const T> o,
                             StridedHeads<const T> d_o, const float* logsumexp, int context,
                             int head_dim) {
  wait_for_stream();
  constexpr int lanes = 8;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const auto row = static_cast<int>((blockIdx.x * prepare_rows_threads + threadIdx.x) / lanes);
  const int batch = static_cast<int>(blockIdx.z);
  const int head = static_cast<int>(blockIdx.y);
  const std::int64_t which = static_cast<std::int64_t>(batch) * gridDim.y + head;
  const bool present = row < context;
  float delta = 0;
  if (present) {
    constexpr int n = pack_size<T>;
    const T* const x = d_o.head(batch, head, context).row(0, row);
    const T* const y = o.head(batch, head, context).row(0, row);
    for (int i = lane * n; i < head_dim; i += lanes * n) {
      const auto a = Pack<T, n>::load(x + i);
      const auto b = Pack<T, n>::load(y + i);
#pragma unroll
      for (int j = 0; j < n; ++j) delta = fmaf(a[j], b[j], delta);
    }
  }
#pragma unroll
  for (int offset = 1; offset < lanes; offset *= 2) {
    delta += __shfl_xor_sync(0xffffffffU, delta, offset);
  }
  const std::int64_t at = which * rows.padded + row;
  if (lane == 0) {
    rows.logsumexp[at] = present ? logsumexp[which * context + row] * log2e : INFINITY;
    rows.delta[at] = delta;
  }
  if (dq_sums == nullptr) return;
  for (int i = lane * 4; i < head_dim; i += lanes * 4) {
    Pack<float, 4>{}.store(dq_sums + at * head_dim + i);
  }
}

template <class T>
void launch_sm80_prepare_rows(const QueryRows& rows, float* dq_sums, const StridedHeads<const T>& o,
                              const StridedHeads<const T>& d_o, const float* logsumexp,
                              const FlashShape& shape, cudaStream_t stream) {
  constexpr int rows_of_block = prepare_rows_threads / 8;
  const dim3 blocks(static_cast<unsigned>(rows.padded / rows_of_block),
                    static_cast<unsigned>(shape.heads), static_cast<unsigned>(shape.batch));
  launch({blocks, prepare_rows_threads, stream}, sm80_prepare_rows_kernel<T>, rows, dq_sums, o, d_o,
         logsumexp, static_cast<int>(shape.context), static_cast<int>(shape.head_dim));
}

}  // namespace paceline
