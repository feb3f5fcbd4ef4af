#pragma once
// FlashAttention-2's forward pass (Dao, arXiv:2307.08691, algorithm 1). A block owns a tile of
// queries and loops over the tiles of keys that they see, the last one first:
//   S = Q K^T                          m' = max(m, rowmax(S))
//   P = exp(scale (S - m'))            l = exp(scale (m - m')) l + rowsum(P)
//   O = exp(scale (m - m')) O + P V    (lines 8-10)
// and at the end O / l and L = scale m + log(l) (lines 12, 13).
//
// K and V have one buffer each: V is loaded during S = Q K^T, the next K during O += P V. A warp
// owns whole rows, so P never leaves its registers.

#include "cuda/ampere/tile.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/ampere/sm80_mask.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/online_row.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

template <class Arithmetic>
struct ForwardArguments {
  StridedHeads<const typename Arithmetic::Element> q, k, v;
  StridedHeads<typename Arithmetic::Stored::Element> o;
  float* logsumexp;  // [B, H, T]
  int context;
  float factor;  // scale log2(e)
  bool causal;
};

// Online softmax of a warp's rows. Until the end a lane sums only its own columns.
template <int M>
struct OnlineSoftmax {
  OnlineRow rows[M][2];

  // P in place of S; the sums and O are rescaled to the new maxima. Masked scores are -infinity.
  template <int N, int D>
  __device__ void next_tile(Accumulator<M, N>& s, Accumulator<M, D>& o, float factor) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        OnlineRow& row = rows[m][half];
        float tile_max = -INFINITY;
#pragma unroll
        for (int n = 0; n < N; ++n) {
          tile_max = fmaxf(tile_max, fmaxf(s.x[m][n][2 * half], s.x[m][n][2 * half + 1]));
        }
        const float correction = row.update_max(quad_reduce(tile_max, Max{}), factor);
#pragma unroll
        for (int n = 0; n < D; ++n) {
          o.x[m][n][2 * half] *= correction;
          o.x[m][n][2 * half + 1] *= correction;
        }
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            s.x[m][n][i] = row.exponential(s.x[m][n][i], factor);
            row.sum += s.x[m][n][i];
          }
        }
      }
    }
  }

  // O / l, and the logsumexp of the warp's rows from `first` on.
  template <int D>
  __device__ void finish(Accumulator<M, D>& o, float* logsumexp, int first, int count) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float l = quad_reduce(rows[m][half].sum, Sum{});
        const float inverse = __frcp_rn(l);
#pragma unroll
        for (int n = 0; n < D; ++n) {
          o.x[m][n][2 * half] *= inverse;
          o.x[m][n][2 * half + 1] *= inverse;
        }
        const int row = first + o.row(m, 2 * half);
        if (lane_id() % 4 == 0 && row < count) logsumexp[row] = rows[m][half].logsumexp(l);
      }
    }
  }
};

template <class Arithmetic, int head_dim>
struct ForwardShape {
  static constexpr Sm80ForwardTiles tiles =
      sm80_forward_tiles(head_dim, Arithmetic::parts * sizeof(typename Arithmetic::Element));
  static constexpr int threads = 32 * tiles.warps;
  using QueryTile = SharedTile<Arithmetic, tiles.queries(), head_dim>;
  using KeyTile = SharedTile<Arithmetic, tiles.keys, head_dim>;
  using OutputTile = SharedTile<typename Arithmetic::Stored, tiles.queries(), head_dim>;
  static_assert(OutputTile::bytes == QueryTile::bytes);
  static constexpr int shared_bytes = QueryTile::bytes + 2 * KeyTile::bytes;
};

template <class Arithmetic, int head_dim>
__global__ void __launch_bounds__(ForwardShape<Arithmetic, head_dim>::threads, 2)
    sm80_forward_kernel(const ForwardArguments<Arithmetic> args) {
  wait_for_stream();
  using Shape = ForwardShape<Arithmetic, head_dim>;
  constexpr Sm80ForwardTiles tiles = Shape::tiles;
  const SharedAddress memory = shared_memory();
  const typename Shape::QueryTile q(memory);
  const typename Shape::KeyTile k(memory + Shape::QueryTile::bytes);
  const typename Shape::KeyTile v(memory + Shape::QueryTile::bytes + Shape::KeyTile::bytes);

  const int head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int context = args.context;
  // LPT order: when causal, the last tiles see the most keys and start first.
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * tiles.queries();
  const int warp_row = warp_id() * tiles.warp_queries;
  const auto keys = args.k.head(batch, head, context);
  const auto values = args.v.head(batch, head, context);
  const int seen = keys_seen(first_query + tiles.queries() - 1, context, args.causal);
  int first_key = (seen - 1) / tiles.keys * tiles.keys;
  q.template start_copy<Shape::threads>(args.q.head(batch, head, context), first_query);
  k.template start_copy<Shape::threads>(keys, first_key);
  commit_copies();

  constexpr int M = tiles.warp_queries / 16;
  OnlineSoftmax<M> softmax;
  Accumulator<M, head_dim / 8> o;
  o.clear();
  for (; first_key >= 0; first_key -= tiles.keys) {
    wait_for_copies<0>();
    __syncthreads();  // K has arrived; the last V has been read
    v.template start_copy<Shape::threads>(values, first_key);
    commit_copies();
    Accumulator<M, tiles.keys / 8> s;
    s.clear();
    add_product<head_dim>(s, q.from_row(warp_row), k.from_row(0));
    wait_for_copies<0>();
    __syncthreads();  // V has arrived; K has been read
    if (first_key > 0) k.template start_copy<Shape::threads>(keys, first_key - tiles.keys);
    commit_copies();
    if (any_masked(first_query, first_key + tiles.keys, context, args.causal)) {
      mask_scores(s, first_query + warp_row, first_key, context, args.causal);
    }
    softmax.next_tile(s, o, args.factor);
    add_tile_product<tiles.keys>(o, as_operand<Arithmetic>(s), v.from_column(0));
  }

  const std::int64_t row = (static_cast<std::int64_t>(batch) * gridDim.y + head) * context;
  softmax.finish(o, args.logsumexp + row, first_query + warp_row, context);
  const typename Shape::OutputTile out(memory);  // Q is free after the last S
  out.put(o, warp_row, 0);
  __syncthreads();
  out.template store<Shape::threads>(args.o.head(batch, head, context), first_query);
}

template <class Arithmetic, int head_dim>
void launch_sm80_forward(const ForwardArguments<Arithmetic>& args, const FlashShape& shape,
                         cudaStream_t stream) {
  using Shape = ForwardShape<Arithmetic, head_dim>;
  launch({tile_grid(shape, Shape::tiles.queries()), Shape::threads, stream, Shape::shared_bytes},
         sm80_forward_kernel<Arithmetic, head_dim>, args);
}

}  // namespace paceline
