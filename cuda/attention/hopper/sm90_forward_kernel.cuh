#pragma once
// FlashAttention-2's forward pass (Dao, arXiv:2307.08691, algorithm 1) on Hopper. For a tile of
// queries Q, over tiles of keys K and values V:
//
//   S = Q K^T,  m' = max(m, rowmax(S)),  P = exp(scale (S - m')),
//   l = exp(scale (m - m')) l + rowsum(P),  O = exp(scale (m - m')) O + P V;
//   at the end O / l and L = scale m + log(l).
//
// The maximum is lazy: after the first tile m stays as it is unless an exponential gets too large.
// The row sums, which are computed anyway, show that; only then is S computed again and m raised
// (online_rows.cuh).
//
// The arrangement is FlashAttention-3's (Shah et al., arXiv:2407.08608). A producer thread has TMA
// load tiles into rings in shared memory; each consumer warpgroup has 64 rows of queries. P V of a
// tile overlaps the exponentials of the next tile. Warpgroups run in ping-pong: while one computes
// exponentials, another has the tensor cores.
//
// Where tiles are few, each block of a cluster computes a part of the keys (split-KV,
// snake_scheduler.h) and the cluster combines the parts (sm90_forward_combine.cuh). float32 is held
// as two bfloat16 (hopper/split.cuh); then P V of each tile starts at 0 and is added to O in
// float32, because tensor cores round sums towards zero (NOTES.md, "fp32 as bf16x3").

#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_forward_combine.cuh"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/store_rows.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/tma.cuh"
#include "cuda/runtime/launch.cuh"

namespace paceline {

template <class Tile, class F>
__device__ void for_each_item(const ForwardParameters& p, F&& f) {
  for (int wave = 0; wave < p.scheduler.waves(); ++wave) {
    const ScheduledTile scheduled = p.scheduler.tile(wave, static_cast<int>(blockIdx.x));
    if (scheduled.tile >= 0) f(ForwardItem<Tile>(p, scheduled), wave);
  }
}

template <class Tile>
__device__ void load_queries(const ForwardParameters& p, ForwardShared<Tile>& shared,
                             const ForwardItem<Tile>& item) {
  shared.q_full.arrive_and_expect(ForwardShared<Tile>::Queries::bytes);
  load(shared.q, p.q, shared.q_full, item.first_query, item.head, item.batch);
}

// Loads tile n of the keys or of the values.
template <class Tile>
__device__ void load_keys(typename ForwardShared<Tile>::Keys& to, const CUtensorMap& map,
                          hopper::Barrier& full, int n, const ForwardItem<Tile>& item) {
  full.arrive_and_expect(ForwardShared<Tile>::Keys::bytes);
  load(to, map, full, n * Tile::keys, item.head, item.batch);
}

// Loads the queries and the last keys of the block's first item before anything else, by one
// thread. A short call mostly waits for memory that is not cached, its instructions included: hence
// this code is short and stands where the kernel begins.
template <class Tile>
__device__ void load_ahead(const ForwardParameters& p, ForwardShared<Tile>& shared) {
  const ScheduledTile scheduled = p.scheduler.tile(0, static_cast<int>(blockIdx.x));
  if (scheduled.tile < 0) return;
  const ForwardItem<Tile> item(p, scheduled);
  if (item.first == item.end) return;
  load_queries(p, shared, item);
  load_keys<Tile>(shared.k[0], p.k, shared.k_full[0], item.end - 1, item);
}

template <class Tile>
__device__ void produce(const ForwardParameters& p, ForwardShared<Tile>& shared) {
  using namespace hopper;
  PipelineState<Tile::stages> k;
  PipelineState<Tile::stages> v;
  int phase = 0;
  for_each_item<Tile>(p, [&](const ForwardItem<Tile>& item, int wave) {
    if (item.first == item.end) return;
    const auto load_k = [&](int n) {
      shared.k_empty[k.stage].wait(k.phase ^ 1);
      load_keys<Tile>(shared.k[k.stage], p.k, shared.k_full[k.stage], n, item);
      k.advance();
    };
    const auto load_v = [&](int n) {
      shared.v_empty[v.stage].wait(v.phase ^ 1);
      load_keys<Tile>(shared.v[v.stage], p.v, shared.v_full[v.stage], n, item);
      v.advance();
    };
    if (wave == 0) {
      k.advance();  // by load_ahead()
    } else {
      shared.q_empty.wait(phase ^ 1);
      load_queries(p, shared, item);
      load_k(item.end - 1);
    }
    phase ^= 1;
#pragma unroll 1  // short code: each kilobyte outside the instruction cache costs a microsecond
    for (int n = item.end - 1; n >= item.first; --n) {
      if (n > item.first) load_k(n - 1);  // the consumers need it before V of this tile
      load_v(n);
    }
  });
}

// Sets the scores of keys after the last one that a row of queries sees to -infinity.
template <int Keys>
__device__ void mask(hopper::Accumulator<Keys>& s, RowPair<int> last) {
  using Scores = hopper::Accumulator<Keys>;
#pragma unroll
  for (int i = 0; i < Scores::elements; ++i) {
    if (Scores::col(i) > last.of[Scores::half(i)]) s.at[i] = -INFINITY;
  }
}

// O and L of one warpgroup's 64 rows of queries, for every item of the block.
template <class Tile>
__device__ void consume(const ForwardParameters& p, ForwardShared<Tile>& shared, int warpgroup) {
  using namespace hopper;
  using T = typename Tile::Element;
  // Ping-pong: one warpgroup at a time issues products.
  const auto pingpong_wait = [&] {
    if constexpr (Tile::warpgroups > 1) named_barrier_sync(1 + warpgroup, 2 * warpgroup_threads);
  };
  const auto pingpong_arrive = [&] {
    if constexpr (Tile::warpgroups > 1) {
      named_barrier_arrive(1 + (warpgroup + 1) % Tile::warpgroups, 2 * warpgroup_threads);
    }
  };
  const int own_barrier = 1 + Tile::warpgroups + warpgroup;  // after those of the ping-pong
  if (warpgroup == Tile::warpgroups - 1) pingpong_arrive();

  PipelineState<Tile::stages> k;
  PipelineState<Tile::stages> v;
  int phase = 0;
  int combined = 0;
  for_each_item<Tile>(p, [&](const ForwardItem<Tile>& item, int) {
    const int first_query = item.first_query + 64 * warpgroup;
    Accumulator<Tile::head_dim> o;
    Accumulator<Tile::head_dim> of_tile;
    auto& product = Tile::is_bf16x3 ? of_tile : o;
    Accumulator<Tile::keys> s;
    typename Tile::Probabilities probabilities;
    OnlineRows rows;
    RowPair<float> logsumexp{{-INFINITY, -INFINITY}};

    const auto mask_scores = [&](int n) {
      const int first_key = n * Tile::keys;
      const int row = p.order.causal() ? first_query + s.row() : p.context;
      mask(s, {min(row, p.context - 1) - first_key, min(row + 8, p.context - 1) - first_key});
    };
    const auto wait_for_keys = [&] { shared.k_full[k.stage].wait(k.phase); };
    const auto issue_scores = [&] {  // S = Q K^T
      int row = 64 * warpgroup;
      // Otherwise the compiler keeps Q's addresses in 16 registers, and others spill.
      if constexpr (Tile::is_bf16x3 && Tile::head_dim == 128) pin(row);
      begin(s);
      mma_abt(s, shared.q, row, shared.k[k.stage]);
      commit();
    };
    const auto release_keys = [&] {
      shared.k_empty[k.stage].arrive();
      k.advance();
    };
    const auto issue_output = [&](bool add) {  // O (+)= P V
      shared.v_full[v.stage].wait(v.phase);
      begin(product, probabilities);
      mma_ab(product, probabilities, shared.v[v.stage], add && !Tile::is_bf16x3);
      commit();
    };
    const auto finish_output = [&] {
      wait<0>(product, probabilities);
      shared.v_empty[v.stage].arrive();
      v.advance();
      if constexpr (Tile::is_bf16x3) add(o, of_tile);
    };

    const auto attend = [&] {  // all tiles of keys, the last first
      if constexpr (Tile::is_bf16x3) clear(o);
      shared.q_full.wait(phase);
      phase ^= 1;
      wait_for_keys();
      int n = item.end - 1;
      pingpong_wait();
      issue_scores();
      pingpong_arrive();
      wait<0>(s);
      release_keys();
      if (n >= item.first_masked) mask_scores(n);
      rows.update(s, p.factor);
      round_to_operand<T>(probabilities, s);  // P

      while (n > item.first) {
        wait_for_keys();
        pingpong_wait();
        issue_scores();
        issue_output(n < item.end - 1);
        pingpong_arrive();
        --n;
        wait<1>(s);
        const bool masked = n >= item.first_masked;
        if (!masked && rows.update_without_max(s, p.factor, Tile::limit, own_barrier)) {
          release_keys();
          finish_output();
        } else {
          finish_output();
          if (masked) {
            mask_scores(n);
          } else {  // an exponential was too large
            issue_scores();
            wait<0>(s);
          }
          release_keys();
          scale_rows(o, rows.update(s, p.factor));
        }
        round_to_operand<T>(probabilities, s);  // P
      }

      shared.q_empty.arrive();
      issue_output(item.end - item.first > 1);
      const RowPair<float> factor = rows.finalize(logsumexp);
      finish_output();
      scale_rows(o, factor);
    };
    if (item.first < item.end) {
      attend();
    } else {
      clear(o);
    }

    const std::int64_t bh = static_cast<std::int64_t>(item.batch) * p.order.heads() + item.head;
    if (item.log2_parts == 0) {
      T* const to = p.o.head<T>(item.batch, item.head);
      store_rows(to, p.o.row_stride, o, first_query, p.context);
    } else if constexpr (Tile::supports_parts) {
      combine_parts(p, shared, item, o, logsumexp, warpgroup, combined++);
    }
    if (item.part > 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_query + o.row() + 8 * h;
      if (threadIdx.x % 4 == 0 && row < p.context) {
        p.logsumexp[bh * p.context + row] = logsumexp.of[h];
      }
    }
  });
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    sm90_forward_kernel(const __grid_constant__ ForwardParameters p) {
  wait_for_stream();
  using namespace hopper;
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardShared<Tile>*>(memory);
  const int warpgroup = warpgroup_index();
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&p.q, &p.k, &p.v}) prefetch(*map);
    shared.init_barriers(p.scheduler.cluster_size());
    load_ahead(p, shared);
  }
  __syncthreads();
  if (p.scheduler.cluster_size() > 1) cluster_arrive();  // combine_parts() waits
  if (warpgroup == 0) {
    deallocate_registers<Tile::producer_registers>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    allocate_registers<Tile::consumer_registers>();
    consume(p, shared, warpgroup - 1);
  }
}

template <class Tile>
void start_forward(const FlashForward& call, const ForwardPlan& plan) {
  const FlashShape& shape = call.shape;
  constexpr int d = Tile::head_dim;
  const ForwardParameters parameters{.q = tensor_map(call.q, shape, Tile::queries, d),
                                     .k = tensor_map(call.k, shape, Tile::keys, d),
                                     .v = tensor_map(call.v, shape, Tile::keys, d),
                                     .o = call.o,
                                     .logsumexp = call.logsumexp,
                                     .context = static_cast<int>(shape.context),
                                     .factor = call.scale * log2e,
                                     .order = plan.order,
                                     .scheduler = plan.scheduler};
  constexpr std::size_t bytes = sizeof(ForwardShared<Tile>);
  static_assert(bytes <= 227 * 1024);
  launch({static_cast<unsigned>(plan.scheduler.blocks()), Tile::threads, call.stream, bytes,
          static_cast<unsigned>(plan.scheduler.cluster_size())},
         sm90_forward_kernel<Tile>, parameters);
}

}  // namespace paceline
