// After the backward pass: dQ in the inputs' dtype from its sums, which lie in the order in which a
// warpgroup's threads hold an accumulator's elements.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

struct Parameters {
  const float* sums;
  FlashHeads dq;
  int context;
  int tiles;  // of queries, per head
  int heads;
  float scale;
};

template <class T, int Cols>
__device__ void finish(T* to, std::int64_t stride, const float* sums, int first, int rows,
                       float scale) {
  hopper::Accumulator<Cols> x;
#pragma unroll
  for (int i = 0; i < Cols / 2; i += 4) {
    const float4 four = reinterpret_cast<const float4*>(
        sums)[i / 4 * hopper::warpgroup_threads + static_cast<int>(threadIdx.x)];
    x.at[i] = four.x * scale;
    x.at[i + 1] = four.y * scale;
    x.at[i + 2] = four.z * scale;
    x.at[i + 3] = four.w * scale;
  }
  store_rows(to, stride, x, first, rows);
}

// A block for what one warpgroup has computed of a tile.
template <class T, class Tile>
__global__ void __launch_bounds__(hopper::warpgroup_threads)
    finish_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  const auto chunk = static_cast<int>(blockIdx.x);
  const int part = chunk % 2;
  const int tile = chunk / 2 % p.tiles;
  const int bh = chunk / 2 / p.tiles;
  T* const to = static_cast<T*>(p.dq.data) + bh / p.heads * p.dq.batch_stride +
                bh % p.heads * p.dq.head_stride;
  const float* const sums = p.sums + static_cast<std::int64_t>(chunk) * Tile::dq_floats;
  const int first = tile * Tile::queries;
  if constexpr (Tile::splits_columns) {
    if (part == 0) {
      finish<T, 64>(to, p.dq.row_stride, sums, first, p.context, p.scale);
    } else {
      finish<T, Tile::head_dim - 64>(to + 64, p.dq.row_stride, sums, first, p.context, p.scale);
    }
  } else {
    finish<T, Tile::head_dim>(to, p.dq.row_stride, sums, first + 64 * part, p.context, p.scale);
  }
}

}  // namespace

void sm90_backward_finish(const FlashBackward& call, const BackwardSpace& space) {
  const FlashShape& shape = call.shape;
  dispatch_half(shape.dtype, [&]<class T>() {
    dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
      using Tile = BackwardTile<HeadDim>;
      const int tiles = space.rows / Tile::queries;
      const Parameters parameters{.sums = space.dq,
                                  .dq = call.dq,
                                  .context = static_cast<int>(shape.context),
                                  .tiles = tiles,
                                  .heads = static_cast<int>(shape.heads),
                                  .scale = call.scale};
      const auto blocks = static_cast<unsigned>(shape.batch * shape.heads * tiles * 2);
      launch({blocks, hopper::warpgroup_threads, call.stream}, finish_kernel<T, Tile>, parameters);
    });
  });
}

}  // namespace paceline
