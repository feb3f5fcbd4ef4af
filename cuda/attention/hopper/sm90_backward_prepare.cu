// The first kernel of the backward pass: D = rowsum(dO * O) (FlashAttention-2, algorithm 2, line 4)
// and the logsumexp to base 2, for rows padded to whole tiles. It also zeros the sums.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_backward.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/vector.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

constexpr int threads = 256;
constexpr int pack = 8;  // elements in 16 bytes

struct Parameters {
  FlashHeads o, d_o;
  const float* logsumexp;  // [B, H, T]
  BackwardWorkspace workspace;
  int context;
  int heads;
  int rows;  // over all heads, padded
  uint4* zeroed;
  std::size_t zeroed_packs;
};

constexpr int lanes_for(int packs) {
  int lanes = 1;
  while (lanes < packs) lanes *= 2;
  return lanes;
}

// `lanes` neighbouring lanes share a row.
template <class T, int HeadDim>
__global__ void __launch_bounds__(threads) prepare_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  for (std::size_t i = blockIdx.x * threads + threadIdx.x; i < p.zeroed_packs;
       i += gridDim.x * std::size_t{threads}) {
    p.zeroed[i] = {};
  }
  constexpr int packs = HeadDim / pack;
  constexpr int lanes = lanes_for(packs);
  const int row = static_cast<int>((blockIdx.x * threads + threadIdx.x) / lanes);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int bh = row / p.workspace.rows;
  const int t = row % p.workspace.rows;
  const bool exists = row < p.rows && t < p.context;
  float delta = 0;
  if (exists && lane < packs) {
    const auto load = [&](const FlashHeads& x) {
      return Pack<T, pack>::load(x.head<T>(bh / p.heads, bh % p.heads) + t * x.row_stride +
                                 lane * pack);
    };
    const Pack<T, pack> o = load(p.o);
    const Pack<T, pack> d_o = load(p.d_o);
#pragma unroll
    for (int i = 0; i < pack; ++i) delta += o[i] * d_o[i];
  }
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    delta += __shfl_xor_sync(0xffffffffU, delta, distance);
  }
  if (lane != 0 || row >= p.rows) return;
  p.workspace.delta[row] = delta;
  p.workspace.logsumexp[row] =
      exists ? p.logsumexp[static_cast<std::int64_t>(bh) * p.context + t] * log2e : INFINITY;
}

template <class T, int HeadDim>
void start(const Parameters& parameters, cudaStream_t stream) {
  constexpr int rows_per_block = threads / lanes_for(HeadDim / pack);
  const int blocks = (parameters.rows + rows_per_block - 1) / rows_per_block;
  launch({static_cast<unsigned>(blocks), threads, stream}, prepare_kernel<T, HeadDim>, parameters);
}

}  // namespace

void sm90_backward_prepare(const FlashBackward& call, const BackwardWorkspace& workspace,
                           std::size_t zeroed_bytes) {
  const FlashShape& shape = call.shape;
  const auto heads = static_cast<int>(shape.heads);
  const Parameters parameters{.o = call.o,
                              .d_o = call.d_o,
                              .logsumexp = call.logsumexp,
                              .workspace = workspace,
                              .context = static_cast<int>(shape.context),
                              .heads = heads,
                              .rows = static_cast<int>(shape.batch) * heads * workspace.rows,
                              .zeroed = static_cast<uint4*>(call.workspace),
                              .zeroed_packs = zeroed_bytes / sizeof(uint4)};
  dispatch_half(shape.dtype, [&]<class T>() {
    dispatch_head_dim(shape.head_dim,
                      [&]<int HeadDim>() { start<T, HeadDim>(parameters, call.stream); });
  });
}

}  // namespace paceline
