// FlashAttention-2's backward pass (Dao, arXiv:2307.08691, algorithm 2) on Hopper: for a tile of
// keys K and values V, over tiles of queries Q,
//
//   P = exp(scale Q K^T - L),  dV += P^T dO,  dP = dO V^T,  dS = P (dP - D),
//   dK += scale dS^T Q,  dQ += scale dS K.
//
// Everything is computed transposed, keys as rows: then P^T and dS^T, in the registers that they
// were computed in, are operands of dV and dK, and only dS for dQ passes through shared memory. dQ,
// which the blocks of all keys add to, is summed in float by the copy engine.

#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_backward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/attention/tile_order.h"
#include "cuda/exponential.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;

constexpr int warpgroups = 2;  // consumers
constexpr int threads = warpgroup_threads * (warpgroups + 1);
constexpr int stages = 2;
constexpr int producer_registers = 24;
constexpr int consumer_registers = 240;

// Named barriers.
constexpr int scores_written = 1;  // both warpgroups' dS
constexpr int sums_written = 2;    // and the next: a warpgroup's dQ

template <class T, class Tile>
struct Shared {
  using Queries = SharedTile<T, Tile::queries, Tile::head_dim>;
  using Keys = SharedTile<T, Tile::keys, Tile::head_dim>;
  Keys k, v;
  Queries q[stages], d_o[stages];
  SharedTile<T, Tile::queries, Tile::keys> ds[2];
  alignas(128) float dq[warpgroups][Tile::dq_floats];
  alignas(16) float logsumexp[stages][Tile::queries];
  alignas(16) float delta[stages][Tile::queries];
  Barrier kv_full;
  Barrier q_full[stages], q_empty[stages];
  Barrier do_full[stages], do_empty[stages];

  __device__ void init_barriers() {
    kv_full.init(1);
    for (int s = 0; s < stages; ++s) {
      q_full[s].init(1);
      do_full[s].init(1);
      q_empty[s].init(4 * warpgroups);
      do_empty[s].init(4 * warpgroups);
    }
    barriers_are_ready();
  }
};

struct Parameters {
  CUtensorMap q, k, v, d_o;
  FlashHeads dk, dv;
  BackwardSpace space;
  int context;
  float scale;
  bool deterministic;
  TileOrder order;  // of tiles of keys; block 0 of the order is the last, whose queries are fewest
};

// Tiles of queries that see keys of a tile; to those before `whole`, with a causal mask, some keys
// are hidden.
template <class Tile, bool Causal>
struct QueryRange {
  int first;
  int whole;
  int end;

  __device__ QueryRange(int first_key, int context) {
    constexpr int m = Tile::queries;
    first = Causal ? first_key / m : 0;
    end = (context + m - 1) / m;
    whole = Causal ? min(end, (first_key + Tile::keys - 1 + m - 1) / m) : 0;
    if (first_key + Tile::keys > context) whole = end;  // keys that do not exist
  }
};

template <class T, class Tile, bool Causal>
__device__ void produce(const Parameters& p, Shared<T, Tile>& shared, int first_key,
                        const QueryTile& tile) {
  using Block = Shared<T, Tile>;
  const QueryRange<Tile, Causal> range(first_key, p.context);
  shared.kv_full.arrive_and_expect(2 * Block::Keys::bytes);
  load(shared.k, p.k, shared.kv_full, first_key, tile.head, tile.batch);
  load(shared.v, p.v, shared.kv_full, first_key, tile.head, tile.batch);
  const std::int64_t rows =
      (static_cast<std::int64_t>(tile.batch) * p.order.heads + tile.head) * p.space.rows;
  constexpr int bytes = Block::Queries::bytes + Tile::queries * 4;
  RingPlace<stages> at;
  for (int m = range.first; m < range.end; ++m, at.advance()) {
    const int row = m * Tile::queries;
    const auto load_rows = [&](typename Block::Queries& to, const CUtensorMap& map, float* numbers,
                               const float* from, Barrier& full, Barrier& empty) {
      empty.wait(at.parity ^ 1);
      full.arrive_and_expect(bytes);
      load(to, map, full, row, tile.head, tile.batch);
      load(numbers, from + rows + row, full, Tile::queries);
    };
    const int s = at.stage;
    load_rows(shared.q[s], p.q, shared.logsumexp[s], p.space.logsumexp, shared.q_full[s],
              shared.q_empty[s]);
    load_rows(shared.d_o[s], p.d_o, shared.delta[s], p.space.delta, shared.do_full[s],
              shared.do_empty[s]);
  }
}

// Scores, keys as rows, become probabilities; logsumexp of the queries in shared memory.
template <int Queries>
__device__ void exponentials(Accumulator<Queries>& s, const float* logsumexp, float scale) {
#pragma unroll
  for (int i = 0; i < Queries / 2; ++i) {
    s.at[i] = fast_exp2(s.at[i] * scale - logsumexp[s.col(i)]);
  }
}

// No share for keys beyond the last, and for those after a query. `ahead`: this thread's upper key
// less the first query.
template <class Tile, bool Causal>
__device__ void mask(Accumulator<Tile::queries>& s, int ahead, int keys_left) {
  using Scores = Accumulator<Tile::queries>;
#pragma unroll
  for (int i = 0; i < Scores::elements; ++i) {
    const int row = 8 * Scores::half(i);
    const bool hidden = row >= keys_left || (Causal && ahead + row > Scores::col(i));
    if (hidden) s.at[i] = -INFINITY;
  }
}

// P^T and dS^T = P^T (dP^T - D) as operands, from P^T in s and dP^T.
template <class T, int Queries>
__device__ void round_gradients(Operand<Queries>& p, Operand<Queries>& ds,
                                const Accumulator<Queries>& s, const Accumulator<Queries>& dp,
                                const float* delta) {
#pragma unroll
  for (int i = 0; i < Queries / 2; i += 2) {
    const float low = s.at[i] * (dp.at[i] - delta[s.col(i)]);
    const float high = s.at[i + 1] * (dp.at[i + 1] - delta[s.col(i + 1)]);
    p.at[i / 8][i / 2 % 4] = packed<T>(s.at[i], s.at[i + 1]);
    ds.at[i / 8][i / 2 % 4] = packed<T>(low, high);
  }
}

// Sums are the same from run to run when those of a tile are added in the order of the keys' tiles.
// Those before have started before: nobody waits for a block that waits for a place.
__device__ void await_turn(const int* turn, int mine) {
  int now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turn) : "memory");
  } while (now != mine);
  order_copies();
}
__device__ void end_turn(int* turn, int mine) {
  wait_for_stores();
  order_copies();
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(mine + 1) : "memory");
}

// A warpgroup's dQ of a tile of queries is added to global memory.
template <class T, class Tile>
__device__ void add_dq(Shared<T, Tile>& shared, const Accumulator<Tile::dq_cols>& dq,
                       const Parameters& p, std::int64_t tile, int key_tile, int warpgroup) {
  // The last panel of head dimension 80 has 16 columns.
  constexpr int last_cols = Tile::splits_columns ? Tile::head_dim - 64 : Tile::dq_cols;
  const int cols = warpgroup == 0 ? Tile::dq_cols : last_cols;
  const bool leader = threadIdx.x % warpgroup_threads == 0;
  if (leader) wait_for_stores_to_read();
  named_barrier_sync(sums_written + warpgroup, warpgroup_threads);
  auto* const staging = reinterpret_cast<float4*>(shared.dq[warpgroup]);
#pragma unroll
  for (int i = 0; i < Tile::dq_cols / 2; i += 4) {
    staging[i / 4 * warpgroup_threads + threadIdx.x % warpgroup_threads] =
        make_float4(dq.at[i], dq.at[i + 1], dq.at[i + 2], dq.at[i + 3]);
  }
  publish_to_async_proxy();
  named_barrier_sync(sums_written + warpgroup, warpgroup_threads);
  if (leader) {
    const std::int64_t part = tile * 2 + warpgroup;
    if (p.deterministic) await_turn(p.space.turns + part, key_tile);
    add_to_global(p.space.dq + part * Tile::dq_floats, shared.dq[warpgroup], 64 * cols * 4);
    commit_stores();
    if (p.deterministic) end_turn(p.space.turns + part, key_tile);
  }
}

template <class T, class Tile, bool Causal>
__device__ void consume(const Parameters& p, Shared<T, Tile>& shared, int first_key,
                        const QueryTile& tile, int warpgroup) {
  const QueryRange<Tile, Causal> range(first_key, p.context);
  const int rows = 64 * warpgroup;
  const auto release = [](Barrier& empty) {
    if (lane() == 0) empty.arrive();
  };
  Accumulator<Tile::head_dim> dk;
  Accumulator<Tile::head_dim> dv;
  Accumulator<Tile::queries> s;
  Accumulator<Tile::queries> dp;
  Accumulator<Tile::dq_cols> dq;
  Operand<Tile::queries> probabilities;
  Operand<Tile::queries> ds;
  const std::int64_t bh = static_cast<std::int64_t>(tile.batch) * p.order.heads + tile.head;
  const std::int64_t dq_tiles = bh * (p.space.rows / Tile::queries);

  RingPlace<stages> at;
  int m = range.first;
  shared.kv_full.wait(0);
  if (m < range.end) shared.q_full[at.stage].wait(at.parity);
  const auto step = [&](auto masked) {
    const int stage = at.stage;
    const bool add = m > range.first;
    begin(s);
    mma_abt(s, shared.k, rows, shared.q[stage]);
    commit();
    shared.do_full[stage].wait(at.parity);
    begin(dp);
    mma_abt(dp, shared.v, rows, shared.d_o[stage]);
    commit();
    at.advance();

    wait<1>(s);
    if constexpr (masked) {
      const int key = first_key + rows + s.row();
      mask<Tile, Causal>(s, key - m * Tile::queries, p.context - key);
    }
    exponentials(s, shared.logsumexp[stage], p.scale * log2e);
    // Here, because the assembler moves no exponentials past a branch (sm90_forward.cu).
    if (m + 1 < range.end) shared.q_full[at.stage].wait(at.parity);
    wait<0>(dp);
    round_gradients<T>(probabilities, ds, s, dp, shared.delta[stage]);
    begin(dv, probabilities);
    mma_ab(dv, probabilities, shared.d_o[stage], add);
    commit();

    auto& ds_tile = shared.ds[m % 2];
    store_transposed(ds_tile, rows, ds);
    publish_to_async_proxy();
    named_barrier_sync(scores_written, warpgroups * warpgroup_threads);
    begin(dq);
    mma_ab(dq, ds_tile, Tile::splits_columns ? 0 : rows, shared.k,
           Tile::splits_columns ? warpgroup : 0);
    commit();
    wait<1>(dv, probabilities);
    release(shared.do_empty[stage]);
    begin(dk, ds);
    mma_ab(dk, ds, shared.q[stage], add);
    commit();
    wait<1>(dq);
    add_dq(shared, dq, p, dq_tiles + m, first_key / Tile::keys, warpgroup);
    wait<0>(dk, ds);
    release(shared.q_empty[stage]);
    ++m;
  };
  while (m < range.whole) step(std::true_type{});
  while (m < range.end) step(std::false_type{});

  scale_rows(dk, {{p.scale, p.scale}});
  const auto store = [&](const FlashHeads& to, const Accumulator<Tile::head_dim>& x) {
    store_rows(static_cast<T*>(to.data) + tile.batch * to.batch_stride + tile.head * to.head_stride,
               to.row_stride, x, first_key + rows, p.context);
  };
  store(p.dv, dv);
  store(p.dk, dk);
  if (threadIdx.x % warpgroup_threads == 0) wait_for_stores();
}

template <class T, class Tile, bool Causal>
__global__ void __launch_bounds__(threads, 1)
    sm90_backward_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<T, Tile>*>(memory);
  const int warpgroup = warpgroup_index();
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&p.q, &p.k, &p.v, &p.d_o}) prefetch(*map);
    shared.init_barriers();
  }
  __syncthreads();
  const QueryTile tile = p.order.at(static_cast<int>(blockIdx.x));
  const int first_key = (p.order.blocks - 1 - tile.block) * Tile::keys;
  if (warpgroup == 0) {
    give_up_registers<producer_registers>();
    if (threadIdx.x == 0) produce<T, Tile, Causal>(p, shared, first_key, tile);
  } else {
    take_registers<consumer_registers>();
    consume<T, Tile, Causal>(p, shared, first_key, tile, warpgroup - 1);
  }
}

template <class T, int HeadDim, bool Causal>
void start(const FlashBackward& call) {
  using Tile = BackwardTile<HeadDim>;
  const FlashShape& shape = call.shape;
  const BackwardLayout<Tile> layout(shape);
  const BackwardSpace space = layout.at(call.workspace);
  CUDA_CHECK(cudaMemsetAsync(call.workspace, 0, layout.zeroed_bytes(), call.stream));
  sm90_backward_prepare(call, space);
  const auto context = static_cast<int>(shape.context);
  const int blocks = (context + Tile::keys - 1) / Tile::keys;
  const Parameters parameters{.q = tensor_map(call.q, shape, Tile::queries, HeadDim),
                              .k = tensor_map(call.k, shape, Tile::keys, HeadDim),
                              .v = tensor_map(call.v, shape, Tile::keys, HeadDim),
                              .d_o = tensor_map(call.d_o, shape, Tile::queries, HeadDim),
                              .dk = call.dk,
                              .dv = call.dv,
                              .space = space,
                              .context = context,
                              .scale = call.scale,
                              .deterministic = shape.deterministic,
                              .order = {blocks, static_cast<int>(shape.heads),
                                        static_cast<int>(shape.batch), heads_per_section(shape)}};
  constexpr std::size_t bytes = sizeof(Shared<T, Tile>);
  static_assert(bytes <= 227 * 1024);
  auto* const kernel = sm90_backward_kernel<T, Tile, Causal>;
  launch({static_cast<unsigned>(parameters.order.tiles()), threads, call.stream, bytes}, kernel,
         parameters);
  sm90_backward_finish(call, space);
}

}  // namespace

void sm90_backward(const FlashBackward& call) {
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int HeadDim>() {
      call.shape.causal ? start<T, HeadDim, true>(call) : start<T, HeadDim, false>(call);
    });
  });
}

std::size_t sm90_backward_workspace_bytes(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, [&]<int HeadDim>() {
    return BackwardLayout<BackwardTile<HeadDim>>(shape).bytes();
  });
}

TileSize sm90_backward_tile(const FlashShape& shape) {
  return dispatch_head_dim(shape.head_dim, []<int HeadDim>() -> TileSize {
    return {BackwardTile<HeadDim>::queries, BackwardTile<HeadDim>::keys};
  });
}

}  // namespace paceline
