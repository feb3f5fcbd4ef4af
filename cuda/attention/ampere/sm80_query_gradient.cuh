#pragma once
// Deterministic dQ, without atomics: a block owns a tile of queries and loops over the keys that
// they see (FlashAttention-2, algorithm 2, with the loops exchanged),
//   P = exp(scale Q K^T - L), dS = P (dO V^T - D), dQ += scale dS K.
// S and dP are computed both here and in sm80_backward_kernel, so the pass has seven products
// instead of five. A warp owns whole rows, so dS never leaves its registers.

#include "cuda/attention/ampere/sm80_backward.cuh"

namespace paceline {

template <class Arithmetic, int head_dim>
struct QueryGradientShape {
  static constexpr int element_bytes =
      Arithmetic::parts * static_cast<int>(sizeof(typename Arithmetic::Element));
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int queries = 16 * warps;
  static constexpr int keys = element_bytes == 4 ? 32 : 64;
  using QueryTile = SharedTile<Arithmetic, queries, head_dim>;
  using KeyTile = SharedTile<Arithmetic, keys, head_dim>;
  using OutputTile = SharedTile<typename Arithmetic::Stored, queries, head_dim>;
  static_assert(OutputTile::bytes == QueryTile::bytes);
  static constexpr int stage_bytes = 2 * KeyTile::bytes;
  static constexpr int shared_bytes = 2 * QueryTile::bytes + 2 * stage_bytes;
};

// dS, in place of dP, of a warp's rows. Element i of a lane is of its row i / 2.
template <int N>
__device__ inline void score_gradient_by_rows(const Accumulator<1, N>& s, Accumulator<1, N>& dp,
                                              const float (&logsumexp)[2], const float (&delta)[2],
                                              float factor) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float p = fast_exp2(fmaf(s.x[0][n][i], factor, -logsumexp[i / 2]));
      dp.x[0][n][i] = p * (dp.x[0][n][i] - delta[i / 2]);
    }
  }
}

template <class Arithmetic, int head_dim>
__global__ void __launch_bounds__(QueryGradientShape<Arithmetic, head_dim>::threads, 2)
    sm80_query_gradient_kernel(const StridedHeads<typename Arithmetic::Stored::Element> dq,
                               const BackwardArguments<Arithmetic> args) {
  wait_for_stream();
  using Shape = QueryGradientShape<Arithmetic, head_dim>;
  using KeyTile = typename Shape::KeyTile;
  const SharedAddress memory = shared_memory();
  const typename Shape::QueryTile q(memory);
  const typename Shape::QueryTile d_o(memory + Shape::QueryTile::bytes);
  const auto stage_at = [&](int stage) {
    return memory + 2 * Shape::QueryTile::bytes + stage * Shape::stage_bytes;
  };

  const int head = static_cast<int>(blockIdx.y);
  const int batch = static_cast<int>(blockIdx.z);
  const int context = args.context;
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * Shape::queries;
  const int seen = keys_seen(first_query + Shape::queries - 1, context, args.causal);
  const auto start_keys = [&](int stage, int first) {
    KeyTile(stage_at(stage))
        .template start_copy<Shape::threads>(args.k.head(batch, head, context), first);
    KeyTile(stage_at(stage) + KeyTile::bytes)
        .template start_copy<Shape::threads>(args.v.head(batch, head, context), first);
    commit_copies();
  };
  q.template start_copy<Shape::threads>(args.q.head(batch, head, context), first_query);
  d_o.template start_copy<Shape::threads>(args.d_o.head(batch, head, context), first_query);
  start_keys(0, 0);

  const int warp_row = warp_id() * 16;
  const std::int64_t first_row =
      (static_cast<std::int64_t>(batch) * gridDim.y + head) * args.rows.padded + first_query +
      warp_row;
  float logsumexp[2];
  float delta[2];
  Accumulator<1, head_dim / 8> sums;
  sums.clear();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    logsumexp[half] = args.rows.logsumexp[first_row + sums.row(0, 2 * half)];
    delta[half] = args.rows.delta[first_row + sums.row(0, 2 * half)];
  }
  const float factor = args.scale * log2e;
  for (int first_key = 0, stage = 0; first_key < seen; first_key += Shape::keys, stage ^= 1) {
    wait_for_copies<0>();
    __syncthreads();  // these keys have arrived; the last ones have been read
    if (first_key + Shape::keys < seen) start_keys(stage ^ 1, first_key + Shape::keys);
    const KeyTile k(stage_at(stage));
    const KeyTile v(stage_at(stage) + KeyTile::bytes);
    Accumulator<1, Shape::keys / 8> s;
    Accumulator<1, Shape::keys / 8> dp;
    s.clear();
    dp.clear();
    add_product<head_dim>(s, q.from_row(warp_row), k.from_row(0));
    if (any_masked(first_query, first_key + Shape::keys, context, args.causal)) {
      mask_scores(s, first_query + warp_row, first_key, context, args.causal);
    }
    add_product<head_dim>(dp, d_o.from_row(warp_row), v.from_row(0));
    score_gradient_by_rows(s, dp, logsumexp, delta, factor);
    add_tile_product<Shape::keys>(sums, as_operand<Arithmetic>(dp), k.from_column(0));
  }

  __syncthreads();  // Q has been read
  sums.for_each([&](float& x, int, int) { x *= args.scale; });
  const typename Shape::OutputTile out(memory);
  out.put(sums, warp_row, 0);
  __syncthreads();
  out.template store<Shape::threads>(dq.head(batch, head, context), first_query);
}

template <class Arithmetic, int head_dim>
void launch_sm80_query_gradient(const StridedHeads<typename Arithmetic::Stored::Element>& dq,
                                const BackwardArguments<Arithmetic>& args, const FlashShape& shape,
                                cudaStream_t stream) {
  using Shape = QueryGradientShape<Arithmetic, head_dim>;
  launch({tile_grid(shape, Shape::queries), Shape::threads, stream, Shape::shared_bytes},
         sm80_query_gradient_kernel<Arithmetic, head_dim>, dq, args);
}

}  // namespace paceline
