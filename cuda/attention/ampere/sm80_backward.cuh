#pragma once
// FlashAttention-2's backward pass (Dao, arXiv:2307.08691, algorithm 2). sm80_prepare_rows.cuh
// provides L and D = rowsum(dO O). A block owns a tile of keys and loops over the tiles of queries
// that see them:
//   S^T = K Q^T                      P^T = exp(scale S^T - L)           (lines 10, 11)
//   dP^T = V dO^T                    dS^T = P^T (dP^T - D)              (lines 13, 14)
//   dV += P^T dO                     dK += scale dS^T Q                 (lines 12, 16)
//   dQ += scale dS K                                                    (line 15)
// dK and dV stay in registers. dQ is added to float32 sums in global memory, in the order of the
// registers: element i of lane l of a warp's fragment f is at ((warp fragments + f) 32 + l) 4 + i
// of the tile's sums, so that a warp adds 512 contiguous bytes at a time. Scale is applied at the
// end. P^T and dS^T go through shared memory, because the products are divided among the warps
// differently.

#include "cuda/ampere/tile.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/ampere/sm80_mask.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/kernels/exponential.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

template <class Arithmetic>
struct BackwardArguments {
  StridedHeads<const typename Arithmetic::Element> q, k, v, d_o;
  StridedHeads<typename Arithmetic::Stored::Element> dk, dv;
  QueryRows rows;
  float* dq_sums;  // [B, H, padded, d]; null: dQ is not computed here
  int context;
  float scale;
  bool causal;
};

template <class Arithmetic, int head_dim>
struct BackwardShape {
  static constexpr Sm80BackwardTiles tiles =
      sm80_backward_tiles(head_dim, Arithmetic::parts * sizeof(typename Arithmetic::Element));
  static constexpr int threads = 32 * tiles.warps();
  using KeyTile = SharedTile<Arithmetic, tiles.keys, head_dim>;
  using QueryTile = SharedTile<Arithmetic, tiles.queries, head_dim>;
  using ScoreTile = SharedTile<Arithmetic, tiles.keys, tiles.queries>;
  using KeyGradientTile = SharedTile<typename Arithmetic::Stored, tiles.keys, head_dim>;
  static_assert(KeyGradientTile::bytes == KeyTile::bytes);
  static constexpr int row_bytes = tiles.queries * static_cast<int>(sizeof(float));
  static constexpr int stage_bytes = 2 * QueryTile::bytes + 2 * row_bytes;
  static constexpr int shared_bytes = 2 * KeyTile::bytes + 2 * ScoreTile::bytes + 2 * stage_bytes;

  template <int rows, int columns>
  static constexpr bool even(WarpGrid warps) {
    return warps.rows * warps.columns == tiles.warps() && rows % (16 * warps.rows) == 0 &&
           columns % (8 * warps.columns) == 0;
  }
  static_assert(even<tiles.keys, tiles.queries>(tiles.scores));
  static_assert(even<tiles.keys, head_dim>(tiles.key_gradient));
  static_assert(even<tiles.queries, head_dim>(tiles.query_gradient));

  template <int rows, int columns, int warp_rows, int warp_columns>
  using Share = Accumulator<rows / warp_rows / 16, columns / warp_columns / 8>;
  using Scores = Share<tiles.keys, tiles.queries, tiles.scores.rows, tiles.scores.columns>;
  using KeyGradient =
      Share<tiles.keys, head_dim, tiles.key_gradient.rows, tiles.key_gradient.columns>;
  using QueryGradient =
      Share<tiles.queries, head_dim, tiles.query_gradient.rows, tiles.query_gradient.columns>;
};

// A tile of queries, with its L and D, in shared memory.
template <class Shape>
struct QueryStage {
  typename Shape::QueryTile q, d_o;
  SharedAddress logsumexp;
  SharedAddress delta;

  __device__ explicit QueryStage(SharedAddress memory)
      : q(memory),
        d_o(memory + Shape::QueryTile::bytes),
        logsumexp(memory + 2 * Shape::QueryTile::bytes),
        delta(logsumexp + Shape::row_bytes) {}

  // rows: L and D of this head.
  template <class E>
  __device__ void start_copy(const HeadRows<const E>& from_q, const HeadRows<const E>& from_d_o,
                             const QueryRows& rows, int first) const {
    q.template start_copy<Shape::threads>(from_q, first);
    d_o.template start_copy<Shape::threads>(from_d_o, first);
    const int i = static_cast<int>(threadIdx.x) * 4;
    if (i < Shape::tiles.queries) {
      copy_async(logsumexp + i * sizeof(float), rows.logsumexp + first + i);
      copy_async(delta + i * sizeof(float), rows.delta + first + i);
    }
    commit_copies();
  }
};

// P^T in place of S^T and dS^T in place of dP^T. logsumexp and delta: from the warp's first query
// on.
template <int M, int N>
__device__ inline void score_gradient(Accumulator<M, N>& s, Accumulator<M, N>& dp,
                                      SharedAddress logsumexp, SharedAddress delta, float factor) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    float2 l;
    float2 d;
    load_shared(l, logsumexp + s.column(n, 0) * sizeof(float));
    load_shared(d, delta + s.column(n, 0) * sizeof(float));
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float p = fast_exp2(fmaf(s.x[m][n][i], factor, -(i % 2 == 0 ? l.x : l.y)));
        s.x[m][n][i] = p;
        dp.x[m][n][i] = p * (dp.x[m][n][i] - (i % 2 == 0 ? d.x : d.y));
      }
    }
  }
}

// Calls f(x, offset) for four elements of this lane at a time; offset: in a tile's sums in register
// order.
template <int M, int N, class F>
__device__ inline void for_each_fragment(Accumulator<M, N>& x, F f) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      f(x.x[m][n], (((warp_id() * M + m) * N + n) * 32 + lane_id()) * 4);
    }
  }
}

template <class Arithmetic, int head_dim>
__global__ void __launch_bounds__(BackwardShape<Arithmetic, head_dim>::threads)
    sm80_backward_kernel(const BackwardArguments<Arithmetic> args) {
  wait_for_stream();
  using Shape = BackwardShape<Arithmetic, head_dim>;
  constexpr Sm80BackwardTiles tiles = Shape::tiles;
  constexpr int threads = Shape::threads;
  const SharedAddress memory = shared_memory();
  const typename Shape::KeyTile k(memory);
  const typename Shape::KeyTile v(memory + Shape::KeyTile::bytes);
  const SharedAddress after_keys = memory + 2 * Shape::KeyTile::bytes;
  const typename Shape::ScoreTile p(after_keys);
  const typename Shape::ScoreTile ds(after_keys + Shape::ScoreTile::bytes);
  const SharedAddress stages = after_keys + 2 * Shape::ScoreTile::bytes;

  const int head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int context = args.context;
  const int first_key = static_cast<int>(blockIdx.x) * tiles.keys;
  const std::int64_t first_row =
      (static_cast<std::int64_t>(batch) * gridDim.y + head) * args.rows.padded;
  const QueryRows rows{args.rows.logsumexp + first_row, args.rows.delta + first_row, 0};
  const auto start_queries = [&](int stage, int first) {
    QueryStage<Shape>(stages + stage * Shape::stage_bytes)
        .start_copy(args.q.head(batch, head, context), args.d_o.head(batch, head, context), rows,
                    first);
  };
  int first_query = args.causal ? first_key / tiles.queries * tiles.queries : 0;
  k.template start_copy<threads>(args.k.head(batch, head, context), first_key);
  v.template start_copy<threads>(args.v.head(batch, head, context), first_key);
  start_queries(0, first_query);

  // Row and column at which the warp's part of each product starts.
  const auto share_of = [](WarpGrid warps, int all_rows, int all_columns) {
    const int row = warp_id() / warps.columns;
    const int column = warp_id() % warps.columns;
    return int2{row * (all_rows / warps.rows), column * (all_columns / warps.columns)};
  };
  const int2 score = share_of(tiles.scores, tiles.keys, tiles.queries);
  const int2 key_share = share_of(tiles.key_gradient, tiles.keys, head_dim);
  const int2 query_share = share_of(tiles.query_gradient, tiles.queries, head_dim);
  typename Shape::KeyGradient dk;
  typename Shape::KeyGradient dv;
  dk.clear();
  dv.clear();
  for (int stage = 0; first_query < context; first_query += tiles.queries, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // this tile of queries has arrived; the last one, P and dS have been read
    const QueryStage<Shape> now(stages + stage * Shape::stage_bytes);
    if (first_query + tiles.queries < context) {
      start_queries(stage ^ 1, first_query + tiles.queries);
    }
    typename Shape::Scores s;
    typename Shape::Scores dp;
    s.clear();
    dp.clear();
    add_product<head_dim>(s, k.from_row(score.x), now.q.from_row(score.y));
    if (any_masked(first_query, first_key + tiles.keys, context, args.causal)) {
      mask_transposed_scores(s, first_key + score.x, first_query + score.y, context, args.causal);
    }
    add_product<head_dim>(dp, v.from_row(score.x), now.d_o.from_row(score.y));
    score_gradient(s, dp, now.logsumexp + score.y * sizeof(float),
                   now.delta + score.y * sizeof(float), args.scale * log2e);
    p.put(s, score.x, score.y);
    ds.put(dp, score.x, score.y);
    __syncthreads();  // P and dS have been written
    add_tile_product<tiles.queries>(dv, p.from_row(key_share.x), now.d_o.from_column(key_share.y));
    add_tile_product<tiles.queries>(dk, ds.from_row(key_share.x), now.q.from_column(key_share.y));
    if (args.dq_sums != nullptr) {
      typename Shape::QueryGradient dq;
      dq.clear();
      add_product<tiles.keys>(dq, ds.from_column(query_share.x), k.from_column(query_share.y));
      float* const sums = args.dq_sums + (first_row + first_query) * head_dim;
      for_each_fragment(dq, [&](const float(&x)[4], int at) { add_atomically(sums + at, x); });
    }
  }

  __syncthreads();  // K and V have been read
  const typename Shape::KeyGradientTile dk_out(memory);
  const typename Shape::KeyGradientTile dv_out(memory + Shape::KeyTile::bytes);
  dk.for_each([&](float& x, int, int) { x *= args.scale; });
  dk_out.put(dk, key_share.x, key_share.y);
  dv_out.put(dv, key_share.x, key_share.y);
  __syncthreads();
  dk_out.template store<threads>(args.dk.head(batch, head, context), first_key);
  dv_out.template store<threads>(args.dv.head(batch, head, context), first_key);
}

template <class Arithmetic, int head_dim>
void launch_sm80_backward(const BackwardArguments<Arithmetic>& args, const FlashShape& shape,
                          cudaStream_t stream) {
  using Shape = BackwardShape<Arithmetic, head_dim>;
  launch({tile_grid(shape, Shape::tiles.keys), Shape::threads, stream, Shape::shared_bytes},
         sm80_backward_kernel<Arithmetic, head_dim>, args);
}

}  // namespace paceline
