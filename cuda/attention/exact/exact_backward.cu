// The backward pass in exact float32, without atomics, in two kernels. One loops over queries for
// dK and dV, as sm80_backward.cuh does; the other loops over keys for dQ, as
// sm80_query_gradient.cuh does. Together they compute seven products.

#include "cuda/ampere/exact.cuh"
#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/ampere/sm80_mask.cuh"
#include "cuda/attention/ampere/sm80_operands.cuh"
#include "cuda/attention/ampere/sm80_prepare_rows.cuh"
#include "cuda/attention/head_dim.h"
#include "cuda/kernels/exponential.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

struct ExactBackward {
  StridedHeads<const float> q, k, v, d_o;
  StridedHeads<float> dq, dk, dv;
  QueryRows rows;
  int context;
  float scale;
  bool causal;
};

template <int d>
constexpr unsigned backward_shared_bytes =
    4 * ExactTile<d>::bytes + 2 * ExactTile<exact_rows>::bytes;

// The tiles of a block in shared memory.
template <int d>
struct Tiles {
  ExactTile<d> q, d_o, k, v;
  ExactTile<exact_rows> p, ds;

  __device__ explicit Tiles(SharedAddress memory)
      : q(memory),
        d_o(memory + ExactTile<d>::bytes),
        k(memory + 2 * ExactTile<d>::bytes),
        v(memory + 3 * ExactTile<d>::bytes),
        p(memory + 4 * ExactTile<d>::bytes),
        ds(memory + 4 * ExactTile<d>::bytes + ExactTile<exact_rows>::bytes) {}
};

struct Head {
  int batch, head;
  std::int64_t first_row;  // of the padded rows

  __device__ explicit Head(const QueryRows& rows)
      : batch(static_cast<int>(blockIdx.z)),
        head(static_cast<int>(blockIdx.y)),
        first_row((static_cast<std::int64_t>(batch) * gridDim.y + head) * rows.padded) {}
};

template <int d, class E>
__device__ inline void start_copies(const ExactTile<d>& a, const ExactTile<d>& b,
                                    const StridedHeads<E>& from_a, const StridedHeads<E>& from_b,
                                    const Head& at, int first, int context) {
  a.template start_copy<exact_threads>(from_a.head(at.batch, at.head, context), first);
  b.template start_copy<exact_threads>(from_b.head(at.batch, at.head, context), first);
  commit_copies();
}

// P in place of S and dS in place of dP. query(i, j): the padded row of the query of element (i,
// j).
template <class Query>
__device__ inline void score_gradient(ScoreSums& s, ScoreSums& dp, const QueryRows& rows,
                                      float factor, Query query) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#pragma unroll
    for (int j = 0; j < ScoreSums::N; ++j) {
      const std::int64_t row = query(i, j);
      s.x[i][j] = fast_exp2(fmaf(s.x[i][j], factor, -rows.logsumexp[row]));
      dp.x[i][j] = s.x[i][j] * (dp.x[i][j] - rows.delta[row]);
    }
  }
}

template <int d>
__global__ void __launch_bounds__(exact_threads, 1)
    exact_key_gradient_kernel(const ExactBackward args) {
  wait_for_stream();
  const Tiles<d> tile(shared_memory());
  const Head at(args.rows);
  const int context = args.context;
  const int first_key = static_cast<int>(blockIdx.x) * exact_rows;
  start_copies(tile.k, tile.v, args.k, args.v, at, first_key, context);
  ThreadSums<d> dk;
  ThreadSums<d> dv;
  dk.clear();
  dv.clear();
  for (int first_query = args.causal ? first_key : 0; first_query < context;
       first_query += exact_rows) {
    start_copies(tile.q, tile.d_o, args.q, args.d_o, at, first_query, context);
    wait_for_copies<0>();
    __syncthreads();  // all four tiles have arrived
    ScoreSums s;      // S^T
    ScoreSums dp;
    s.clear();
    dp.clear();
    add_row_products(s, tile.k, tile.q);
    add_row_products(dp, tile.v, tile.d_o);
    if (any_masked(first_query, first_key + exact_rows, context, args.causal)) {
      mask_transposed_scores(s, first_key, first_query, context, args.causal);
    }
    score_gradient(s, dp, args.rows, args.scale * log2e,
                   [&](int, int j) { return at.first_row + first_query + ScoreSums::column(j); });
    s.put(tile.p);
    dp.put(tile.ds);
    __syncthreads();  // P and dS have been written
    add_products(dv, tile.p, tile.d_o);
    add_products(dk, tile.ds, tile.q);
    __syncthreads();  // Q, dO, P and dS have been read
  }
  dk.store(args.dk.head(at.batch, at.head, context), first_key,
           {args.scale, args.scale, args.scale, args.scale});
  dv.store(args.dv.head(at.batch, at.head, context), first_key, {1, 1, 1, 1});
}

template <int d>
__global__ void __launch_bounds__(exact_threads, 1)
    exact_query_gradient_kernel(const ExactBackward args) {
  wait_for_stream();
  const Tiles<d> tile(shared_memory());
  const Head at(args.rows);
  const int context = args.context;
  const int first_query = static_cast<int>(gridDim.x - 1 - blockIdx.x) * exact_rows;
  const int seen = keys_seen(first_query + exact_rows - 1, context, args.causal);
  start_copies(tile.q, tile.d_o, args.q, args.d_o, at, first_query, context);
  ThreadSums<d> dq;
  dq.clear();
  for (int first_key = 0; first_key < seen; first_key += exact_rows) {
    start_copies(tile.k, tile.v, args.k, args.v, at, first_key, context);
    wait_for_copies<0>();
    __syncthreads();  // all four tiles have arrived
    ScoreSums s;
    ScoreSums dp;
    s.clear();
    dp.clear();
    add_row_products(s, tile.q, tile.k);
    add_row_products(dp, tile.d_o, tile.v);
    if (any_masked(first_query, first_key + exact_rows, context, args.causal)) {
      mask_scores(s, first_query, first_key, context, args.causal);
    }
    score_gradient(s, dp, args.rows, args.scale * log2e,
                   [&](int i, int) { return at.first_row + first_query + ScoreSums::row(i); });
    dp.put(tile.ds);
    __syncthreads();  // dS has been written
    add_products(dq, tile.ds, tile.k);
    __syncthreads();  // K, V and dS have been read
  }
  dq.store(args.dq.head(at.batch, at.head, context), first_query,
           {args.scale, args.scale, args.scale, args.scale});
}

}  // namespace

void exact_backward(const FlashBackward& call) {
  const QueryRows rows = query_rows(call);
  launch_sm80_prepare_rows(rows, nullptr, strided<const float>(call.o),
                           strided<const float>(call.d_o), call.logsumexp, call.shape, call.stream);
  const ExactBackward args{.q = strided<const float>(call.q),
                           .k = strided<const float>(call.k),
                           .v = strided<const float>(call.v),
                           .d_o = strided<const float>(call.d_o),
                           .dq = strided<float>(call.dq),
                           .dk = strided<float>(call.dk),
                           .dv = strided<float>(call.dv),
                           .rows = rows,
                           .context = static_cast<int>(call.shape.context),
                           .scale = call.scale,
                           .causal = call.shape.causal};
  dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
    const Grid grid{tile_grid(call.shape, exact_rows), exact_threads, call.stream,
                    backward_shared_bytes<d>};
    launch(grid, exact_key_gradient_kernel<d>, args);
    launch(grid, exact_query_gradient_kernel<d>, args);
  });
}

}  // namespace paceline
