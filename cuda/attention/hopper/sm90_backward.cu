// FlashAttention-2's backward pass (Dao, arXiv:2307.08691, algorithm 2) on Hopper. For a tile of
// keys K and values V, over tiles of queries Q:
//
//   P = exp(scale Q K^T - L),  dV += P^T dO,  dP = dO V^T,  dS = P (dP - D),
//   dK += scale dS^T Q,  dQ += scale dS K.
//
// Scores are computed transposed, with keys as rows. P^T is then an operand of dV in the registers
// that it was computed in. Only dS passes through shared memory, where the keys of both warpgroups
// come together for dQ. dQ is summed over the blocks of all keys, in float in global memory. So are
// dK and dV of a tile of keys that several blocks compute (stream_k_scheduler.h).
//
// The order of work, for tiles m of queries. Each warpgroup computes while products are in flight:
//
//   tensor cores | dP(m)   dK(m-1) | S(m+1)       | dQ(m)   dV(m)      | dP(m+1)   dK(m)
//   warpgroup    |         dS(m)   | writes dS(m) | P(m+1)  adds dQ(m) |           dS(m+1)

#include <algorithm>

#include "cuda/attention/head_dim.h"
#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_backward.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/schedule/tile_order.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/hopper/tma.cuh"
#include "cuda/kernels/exponential.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;

constexpr int warpgroups = 2;  // consumers
constexpr int threads = warpgroup_threads * (warpgroups + 1);
constexpr int q_stages = 3;  // for S of the next tile, dK of this one, and the load in flight
constexpr int do_stages = 2;
constexpr int producer_registers = 24;
constexpr int consumer_registers = 240;
static_assert(registers_suffice(warpgroups, producer_registers, consumer_registers));

// Named barriers.
constexpr int ds_written = 1;  // by both warpgroups
constexpr int dq_barrier = 2;  // and 3: one for each warpgroup, around its addition to dQ

struct Parameters {
  CUtensorMap q, k, v, d_o;
  FlashHeads dk, dv;
  BackwardWorkspace workspace;
  int context;
  float scale;
  bool deterministic;
  StreamKScheduler scheduler;
};

// A tile of keys and the tiles of queries that see it. The mask cuts those before masked_end.
template <class Tile>
struct Item {
  int head;
  int batch;
  int first_key;
  int first;
  int end;
  int masked_end;
  int sums;  // index of the stream-K tile whose sums of dK and dV the block adds to; negative: the
             // block computes the whole tile

  Item() = default;
  __device__ Item(const Parameters& p, const WorkItem& work) {
    const TileOrder& order = p.scheduler.order();
    sums = work.whole ? -1 : work.tile - p.scheduler.data_parallel_tiles();
    head = work.head;
    batch = work.batch;
    first_key = work.index_in_head * Tile::keys;
    const int diagonal = order.causal() ? first_key / Tile::queries : 0;
    first = diagonal + work.first;
    end = diagonal + work.end;
    masked_end = order.causal() ? diagonal + Tile::keys / Tile::queries : 0;
    if (first_key + Tile::keys > p.context) masked_end = end;  // some keys are past the end
  }
};

template <class T, class Tile>
struct Shared {
  using Queries = SharedTile<T, Tile::queries, Tile::head_dim>;
  using Keys = SharedTile<T, Tile::keys, Tile::head_dim>;
  Keys k, v;
  Queries q[q_stages], d_o[do_stages];
  SharedTile<T, Tile::queries, Tile::keys> ds[2];
  alignas(16) float logsumexp[q_stages][Tile::queries];
  alignas(16) float delta[do_stages][Tile::queries];
  Item<Tile> items[2];  // double-buffered; with one, head dimension 128 spills registers
  Barrier item_full;    // separate from kv_full: consumers prepare while K and V are in flight
  Barrier kv_full, kv_empty;
  Barrier q_full[q_stages], q_empty[q_stages];
  Barrier do_full[do_stages], do_empty[do_stages];

  __device__ void init_barriers() {
    item_full.init(1);
    kv_full.init(1);
    kv_empty.init(warpgroups * warpgroup_threads);
    for (int s = 0; s < q_stages; ++s) {
      q_full[s].init(1);
      q_empty[s].init(warpgroups * warpgroup_threads);
    }
    for (int s = 0; s < do_stages; ++s) {
      do_full[s].init(1);
      do_empty[s].init(warpgroups * warpgroup_threads);
    }
    barriers_are_ready();
  }
};

template <class T, class Tile>
__device__ void produce(const Parameters& p, Shared<T, Tile>& shared) {
  using Block = Shared<T, Tile>;
  PipelineState<q_stages> q;
  PipelineState<do_stages> d_o;
  int phase = 0;
  // Hands an item to the consumers. Returns the copy in shared memory, because registers are few.
  const auto publish = [&](const Item<Tile>& item) -> const Item<Tile>& {
    Item<Tile>& slot = shared.items[phase];
    slot = item;
    shared.item_full.arrive();
    phase ^= 1;
    return slot;
  };
  const auto produce_part = [&](const WorkItem& part) {
    const Item<Tile> next(p, part);
    shared.kv_empty.wait(phase ^ 1);
    shared.kv_full.arrive_and_expect(2 * Block::Keys::bytes);
    load(shared.k, p.k, shared.kv_full, next.first_key, next.head, next.batch);
    load(shared.v, p.v, shared.kv_full, next.first_key, next.head, next.batch);
    const Item<Tile>& item = publish(next);
    const int rows = (item.batch * p.scheduler.order().heads() + item.head) * p.workspace.rows;
    constexpr int bytes = Block::Queries::bytes + Tile::queries * 4;
#pragma unroll 1  // short code, as in sm90_forward_kernel.cuh
    for (int m = item.first; m < item.end; ++m, q.advance(), d_o.advance()) {
      const int row = m * Tile::queries;
      const auto load_rows = [&](auto state, typename Block::Queries* to, const CUtensorMap& map,
                                 auto* numbers, const float* from, Barrier* full, Barrier* empty) {
        const int s = state.stage;
        empty[s].wait(state.phase ^ 1);
        full[s].arrive_and_expect(bytes);
        load(to[s], map, full[s], row, item.head, item.batch);
        load(numbers[s], from + rows + row, full[s], Tile::queries);
      };
      load_rows(q, shared.q, p.q, shared.logsumexp, p.workspace.logsumexp, shared.q_full,
                shared.q_empty);
      load_rows(d_o, shared.d_o, p.d_o, shared.delta, p.workspace.delta, shared.do_full,
                shared.do_empty);
    }
  };
  // The first unit of a block is its index; later units come from an atomic counter. Deterministic
  // blocks wait for each other, so all of their units come from the counter: blocks need not start
  // in the order of their indices.
  const int static_units = p.deterministic ? 0 : static_cast<int>(gridDim.x);
  const auto next_unit = [&] { return static_units + atomicAdd(p.workspace.unit_counter, 1); };
  int unit = static_units > 0 ? static_cast<int>(blockIdx.x) : next_unit();
  for (; unit < p.scheduler.units(); unit = next_unit())
    p.scheduler.for_each_part(unit, produce_part);
  shared.kv_empty.wait(phase ^ 1);
  publish({});  // an empty item ends the consumers
}

// P^T = exp(scale S^T - L), in place. logsumexp: of the queries, to base 2, in shared memory.
template <int Queries>
__device__ void exponentials(Accumulator<Queries>& s, const float* logsumexp, float scale) {
#pragma unroll
  for (int i = 0; i < Queries / 2; ++i) {
    s.at[i] = fast_exp2(s.at[i] * scale - logsumexp[s.col(i)]);
  }
}

// Sets the scores of queries before the first one that sees a row of keys to -infinity.
template <int Queries>
__device__ void mask(Accumulator<Queries>& s, RowPair<int> first) {
  using Scores = Accumulator<Queries>;
#pragma unroll
  for (int i = 0; i < Scores::elements; ++i) {
    if (Scores::col(i) < first.of[Scores::half(i)]) s.at[i] = -INFINITY;
  }
}

// dS^T = P^T (dP^T - D), in place of dP^T. s: P^T.
template <int Queries>
__device__ void score_gradients(Accumulator<Queries>& dp, const Accumulator<Queries>& s,
                                const float* delta) {
#pragma unroll
  for (int i = 0; i < Queries / 2; ++i) dp.at[i] = s.at[i] * (dp.at[i] - delta[s.col(i)]);
}

// The sums of dQ are deterministic when the tiles of keys are added in order. Blocks take and
// compute them in that order, so a block never waits for a tile that no block has taken yet, nor
// for one that it will compute itself.
__device__ void semaphore_wait(const int* semaphore, int value) {
  int now = 0;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(semaphore) : "memory");
  } while (now != value);
}
__device__ void semaphore_release(int* semaphore, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(semaphore), "r"(value + 1) : "memory");
}

// Adds the first `elements` of each thread's sums to global memory, in which four elements of
// thread 0 come first, then four of thread 1, and so on.
template <int N>
__device__ void add_sums(float* sums, const Accumulator<N>& x, int elements = N / 2) {
  const int thread = static_cast<int>(threadIdx.x) % warpgroup_threads;
  auto* const to = reinterpret_cast<float4*>(sums) + thread;
#pragma unroll
  for (int i = 0; i < N / 2; i += 4) {
    if (i >= elements) break;
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(
                     to + i / 4 * warpgroup_threads),
                 "f"(x.at[i]), "f"(x.at[i + 1]), "f"(x.at[i + 2]), "f"(x.at[i + 3])
                 : "memory");
  }
}

// Adds a warpgroup's part of dQ of a tile of queries.
template <class Tile>
__device__ void add_dq(const Accumulator<Tile::dq_cols>& dq, const Parameters& p, std::int64_t tile,
                       int key_tile, int warpgroup) {
  const std::int64_t part = tile * 2 + warpgroup;
  const bool leader = threadIdx.x % warpgroup_threads == 0;
  if (p.deterministic) {
    if (leader) semaphore_wait(p.workspace.dq_semaphores + part, key_tile);
    named_barrier_sync(dq_barrier + warpgroup, warpgroup_threads);
  }
  add_sums(p.workspace.dq + part * Tile::dq_floats, dq,
           (warpgroup == 0 ? Tile::dq_cols : Tile::last_cols) / 2);
  if (p.deterministic) {
    __threadfence();
    named_barrier_sync(dq_barrier + warpgroup, warpgroup_threads);
    if (leader) semaphore_release(p.workspace.dq_semaphores + part, key_tile);
  }
}

// A warpgroup's 64 rows of an item's keys.
template <class T, class Tile>
__device__ void compute(const Parameters& p, Shared<T, Tile>& shared, const Item<Tile>& item,
                        int phase, int warpgroup, PipelineState<q_stages>& q,
                        PipelineState<do_stages>& d_o) {
  Accumulator<Tile::head_dim> dk;
  Accumulator<Tile::head_dim> dv;
  Accumulator<Tile::queries> s;
  Accumulator<Tile::queries> dp;
  Accumulator<Tile::dq_cols> dq;
  Operand<Tile::queries> probabilities;
  Operand<Tile::queries> ds;
  const std::int64_t bh =
      static_cast<std::int64_t>(item.batch) * p.scheduler.order().heads() + item.head;
  const std::int64_t dq_tiles = bh * (p.workspace.rows / Tile::queries);
  // Cleared explicitly. A first product that ignores the old sums would leave the previous item's
  // values live, as written by something other than wgmma, and ptxas would then serialise all
  // wgmma.
  clear(dk);
  clear(dv);
  int m = item.first;
  // Recomputed where it is used: kept, the operands' addresses would take too many registers.
  const auto own_rows = [&] {
    int rows = 64 * warpgroup;
    pin(rows);
    return rows;
  };
  const auto issue_scores = [&] {  // S^T = K Q^T
    shared.q_full[q.stage].wait(q.phase);
    begin(s);
    mma_abt(s, shared.k, own_rows(), shared.q[q.stage]);
    commit();
  };
  const auto compute_probabilities = [&](int stage, int tile_of_queries) {  // P^T
    if (tile_of_queries < item.masked_end) {
      const auto first_query = [&](int key) {
        if (key >= p.context) return Tile::queries;  // none
        return p.scheduler.order().causal() ? key - tile_of_queries * Tile::queries : 0;
      };
      const int key = item.first_key + 64 * warpgroup + s.row();
      mask(s, {first_query(key), first_query(key + 8)});
    }
    exponentials(s, shared.logsumexp[stage], p.scale * log2e);
  };
  const auto issue_dp = [&] {  // dP^T = V dO^T
    shared.do_full[d_o.stage].wait(d_o.phase);
    begin(dp);
    mma_abt(dp, shared.v, own_rows(), shared.d_o[d_o.stage]);
    commit();
  };

  int q_stage = q.stage;   // of tile m
  int q_before = q_stage;  // of tile m - 1
  shared.kv_full.wait(phase);
  issue_scores();
  q.advance();
  wait<0>(s);
  compute_probabilities(q_stage, m);
  issue_dp();
  wait<0>(dp);
  // Begins with P^T(m) in s, dP^T(m) in dp and dK(m - 1) in flight. Ends with the same of the next
  // tile.
  const auto step = [&](auto last) {
    const int do_stage = d_o.stage;
    d_o.advance();
    score_gradients(dp, s, shared.delta[do_stage]);
    round_to_operand<T>(probabilities, s);
    round_to_operand<T>(ds, dp);
    auto& ds_tile = shared.ds[m % 2];
    store_transposed(ds_tile, own_rows(), ds);
    publish_to_async_proxy();
    if constexpr (!last) issue_scores();
    named_barrier_sync(ds_written, warpgroups * warpgroup_threads);
    wait<last ? 0 : 1>(dk);
    if (m > item.first) shared.q_empty[q_before].arrive();

    begin(dq);  // dQ(m) = dS K
    mma_ab(dq, ds_tile, Tile::splits_columns ? 0 : own_rows(), shared.k,
           Tile::splits_columns ? warpgroup : 0);
    commit();
    begin(dv, probabilities);  // dV += P^T dO
    mma_ab(dv, probabilities, shared.d_o[do_stage], true);
    commit();
    if constexpr (!last) {
      wait<2>(s);
      compute_probabilities(q.stage, m + 1);
      // The wait is here because ptxas moves no exponentials past a branch. Otherwise it would move
      // them behind the products that are to hide them.
      shared.do_full[d_o.stage].wait(d_o.phase);
    }
    wait<1>(dq);
    // After both warpgroups have arrived, the next item may overwrite K, V and dS.
    if constexpr (last) shared.kv_empty.arrive();
    add_dq<Tile>(dq, p, dq_tiles + m, item.first_key / Tile::keys, warpgroup);
    wait<0>(dv, probabilities);
    shared.do_empty[do_stage].arrive();

    if constexpr (!last) issue_dp();
    begin(dk);  // dK += dS^T Q
    mma_atb(dk, ds_tile, warpgroup, shared.q[q_stage], true);
    commit();
    if constexpr (last) {
      wait<0>(dk);
      shared.q_empty[q_stage].arrive();
    } else {
      wait<1>(dp);
      q_before = q_stage;
      q_stage = q.stage;
      q.advance();
      ++m;
    }
  };
  while (m + 1 < item.end) step(std::false_type{});
  step(std::true_type{});

  if (item.sums >= 0) {
    const std::int64_t sums = (item.sums * 2 + warpgroup) * std::int64_t{64 * Tile::head_dim};
    add_sums(p.workspace.dv + sums, dv);
    add_sums(p.workspace.dk + sums, dk);
    return;
  }
  scale_rows(dk, {{p.scale, p.scale}});
  const auto store = [&](const FlashHeads& to, const Accumulator<Tile::head_dim>& x) {
    store_rows(to.head<T>(item.batch, item.head), to.row_stride, x, item.first_key + 64 * warpgroup,
               p.context);
  };
  store(p.dv, dv);
  store(p.dk, dk);
}

template <class T, class Tile>
__device__ void consume(const Parameters& p, Shared<T, Tile>& shared, int warpgroup) {
  PipelineState<q_stages> q;
  PipelineState<do_stages> d_o;
  for (int phase = 0;; phase ^= 1) {
    shared.item_full.wait(phase);
    const Item<Tile> item = shared.items[phase];
    // The vote tells the compiler that the branch is uniform. Otherwise the pipeline states leave
    // the uniform registers.
    if (!__any_sync(~0U, item.first < item.end)) return;
    compute(p, shared, item, phase, warpgroup, q, d_o);
  }
}

template <class T, class Tile>
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
  if (warpgroup == 0) {
    deallocate_registers<producer_registers>();
    if (threadIdx.x == 0) produce<T, Tile>(p, shared);
  } else {
    allocate_registers<consumer_registers>();
    consume<T, Tile>(p, shared, warpgroup - 1);
  }
}

template <class T, int HeadDim>
void start(const FlashBackward& call) {
  using Tile = BackwardTile<HeadDim>;
  const FlashShape& shape = call.shape;
  const BackwardPlan<Tile> plan(shape);
  const BackwardWorkspace workspace = plan.at(call.workspace);
  sm90_backward_prepare(call, workspace, plan.zeroed_bytes());
  const int blocks = std::min(plan.scheduler.units(), multiprocessors());
  const Parameters parameters{.q = tensor_map(call.q, shape, Tile::queries, HeadDim),
                              .k = tensor_map(call.k, shape, Tile::keys, HeadDim),
                              .v = tensor_map(call.v, shape, Tile::keys, HeadDim),
                              .d_o = tensor_map(call.d_o, shape, Tile::queries, HeadDim),
                              .dk = call.dk,
                              .dv = call.dv,
                              .workspace = workspace,
                              .context = static_cast<int>(shape.context),
                              .scale = call.scale,
                              .deterministic = shape.deterministic,
                              .scheduler = plan.scheduler};
  constexpr std::size_t bytes = sizeof(Shared<T, Tile>);
  static_assert(bytes <= 227 * 1024);
  auto* const kernel = sm90_backward_kernel<T, Tile>;
  launch({static_cast<unsigned>(blocks), threads, call.stream, bytes}, kernel, parameters);
  sm90_backward_finish(call, workspace, plan.scheduler);
}

}  // namespace

void sm90_backward(const FlashBackward& call) {
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int HeadDim>() { start<T, HeadDim>(call); });
  });
}

}  // namespace paceline
