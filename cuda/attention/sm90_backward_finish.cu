// After the backward pass: gradients in the inputs' dtype from their sums, which lie in the order
// in which a warpgroup's threads hold an accumulator's elements.

#include <algorithm>

#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

// One gradient; dQ comes first.
struct Gradient {
  const float* sums;
  FlashHeads to;
  int tiles;  // per head
  float scale;
};

struct Parameters {
  Gradient gradients[3];
  int context;
  int heads;  // per sequence
  int all_heads;
};

template <class T, int Cols>
__device__ void finish(T* to, const Gradient& gradient, const float* sums, int first, int rows) {
  hopper::Accumulator<Cols> x;
#pragma unroll
  for (int i = 0; i < Cols / 2; i += 4) {
    const float4 four = reinterpret_cast<const float4*>(
        sums)[i / 4 * hopper::warpgroup_threads + static_cast<int>(threadIdx.x)];
    x.at[i] = four.x * gradient.scale;
    x.at[i + 1] = four.y * gradient.scale;
    x.at[i + 2] = four.z * gradient.scale;
    x.at[i + 3] = four.w * gradient.scale;
  }
  store_rows(to, gradient.to.row_stride, x, first, rows);
}

// A block for what one warpgroup has computed of a tile.
template <class T, class Tile>
__global__ void __launch_bounds__(hopper::warpgroup_threads)
    finish_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  const Gradient& gradient = p.gradients[blockIdx.y];
  const auto chunk = static_cast<int>(blockIdx.x);
  const int part = chunk % 2;
  const int tile = chunk / 2 % gradient.tiles;
  const int bh = chunk / 2 / gradient.tiles;
  if (bh >= p.all_heads) return;
  T* const to = gradient.to.head<T>(bh / p.heads, bh % p.heads);
  const bool is_dq = blockIdx.y == 0;
  if (!is_dq || !Tile::splits_columns) {
    const float* const sums = gradient.sums + chunk * std::int64_t{64 * Tile::head_dim};
    const int first = tile * (is_dq ? Tile::queries : Tile::keys) + 64 * part;
    return finish<T, Tile::head_dim>(to, gradient, sums, first, p.context);
  }
  if constexpr (Tile::splits_columns) {
    const float* const sums = gradient.sums + chunk * std::int64_t{Tile::dq_floats};
    const int first = tile * Tile::queries;
    if (part == 0) {
      finish<T, 64>(to, gradient, sums, first, p.context);
    } else {
      finish<T, Tile::head_dim - 64>(to + 64, gradient, sums, first, p.context);
    }
  }
}

}  // namespace

void sm90_backward_finish(const FlashBackward& call, const BackwardSpace& space) {
  const FlashShape& shape = call.shape;
  const auto heads = static_cast<int>(shape.heads);
  const auto all_heads = static_cast<int>(shape.batch) * heads;
  dispatch_half(shape.dtype, [&]<class T>() {
    dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
      using Tile = BackwardTile<HeadDim>;
      const int query_tiles = space.rows / Tile::queries;
      const int key_tiles = (static_cast<int>(shape.context) + Tile::keys - 1) / Tile::keys;
      const bool divided = space.dk != nullptr;
      const Parameters parameters{.gradients = {{space.dq, call.dq, query_tiles, call.scale},
                                                {space.dk, call.dk, key_tiles, call.scale},
                                                {space.dv, call.dv, key_tiles, 1}},
                                  .context = static_cast<int>(shape.context),
                                  .heads = heads,
                                  .all_heads = all_heads};
      const int tiles = divided ? std::max(query_tiles, key_tiles) : query_tiles;
      const dim3 blocks(static_cast<unsigned>(all_heads * tiles * 2), divided ? 3 : 1);
      launch({blocks, hopper::warpgroup_threads, call.stream}, finish_kernel<T, Tile>, parameters);
    });
  });
}

}  // namespace paceline
