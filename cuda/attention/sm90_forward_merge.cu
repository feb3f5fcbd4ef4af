// After the forward pass over parts of the keys: with L_p of part p,
//   L = log(sum_p exp(L_p)),  O = sum_p exp(L_p - L) O_p.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/exponential.cuh"
#include "cuda/launch.cuh"
#include "cuda/vector.cuh"

namespace paceline {

namespace {

constexpr int threads = 128;
constexpr int pack = 4;  // floats of 16 bytes

struct Parameters {
  ForwardSpace parts;
  FlashHeads o;
  float* logsumexp;  // [B, H, T]
  TileOrder order;
  int queries;  // of a tile
  int context;
  int rows;  // of all heads
};

// A row for so many neighbouring lanes.
template <class T, int HeadDim>
__global__ void __launch_bounds__(threads) merge_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  constexpr int lanes = HeadDim / pack;
  const int index = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  const int row = index / lanes;
  const int lane = index % lanes;
  if (row >= p.rows) return;
  const int bh = row / p.context;
  const int t = row % p.context;
  const int parts = p.order.parts(p.order.blocks() - 1 - t / p.queries);

  const auto logsumexp_of = [&](int part) {
    return p.parts.logsumexp[std::int64_t{part} * p.rows + row] * log2e;
  };
  float highest = -INFINITY;
  for (int i = 0; i < parts; ++i) highest = fmaxf(highest, logsumexp_of(i));
  float sum = 0;
  float o[pack] = {};
  for (int i = 0; i < parts; ++i) {
    const float weight = fast_exp2(logsumexp_of(i) - highest);
    const auto x = Pack<float, pack>::load(
        p.parts.o + ((std::int64_t{i} * p.rows + row) * HeadDim + lane * pack));
#pragma unroll
    for (int j = 0; j < pack; ++j) o[j] += weight * x[j];
    sum += weight;
  }
  Pack<T, pack> out;
#pragma unroll
  for (int j = 0; j < pack; ++j) out.set(j, o[j] / sum);
  const int heads = p.order.heads();
  out.store(p.o.head<T>(bh / heads, bh % heads) + t * p.o.row_stride + lane * pack);
  if (lane == 0) p.logsumexp[row] = (highest + log2f(sum)) / log2e;
}

}  // namespace

void sm90_forward_merge(const FlashForward& call, const ForwardPlan& plan) {
  const FlashShape& shape = call.shape;
  const Parameters parameters{.parts = plan.at(call.workspace),
                              .o = call.o,
                              .logsumexp = call.logsumexp,
                              .order = plan.order,
                              .queries = 64 * plan.warpgroups,
                              .context = static_cast<int>(shape.context),
                              .rows = static_cast<int>(plan.rows)};
  dispatch_half(shape.dtype, [&]<class T>() {
    dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
      constexpr int rows_per_block = threads * pack / HeadDim;
      const int blocks = (parameters.rows + rows_per_block - 1) / rows_per_block;
      launch({static_cast<unsigned>(blocks), threads, call.stream}, merge_kernel<T, HeadDim>,
             parameters);
    });
  });
}

}  // namespace paceline
