#pragma once
// FlashAttention-2's forward pass (Dao, arXiv:2307.08691, algorithm 1) on Hopper: for a tile of
// queries Q, over tiles of keys K and values V,
//
//   S = Q K^T,  m' = max(m, rowmax(S)),  P = exp(scale (S - m')),
//   l = exp(scale (m - m')) l + rowsum(P),  O = exp(scale (m - m')) O + P V;
//   at the end O / l and L = scale m + log(l),
//
// where m is raised only when it has to be (online_rows.cuh).
//
// As FlashAttention-3 (Shah et al., arXiv:2407.08608) arranges it: a producer warp has the copy
// engine bring tiles into rings in shared memory; consumer warpgroups have 64 rows of queries each.
// The product S of a tile runs while the exponentials of the tile before are taken, and while one
// warpgroup takes exponentials, another has the tensor cores.
// Where tiles are few, the blocks of a cluster see a part of the keys each (turns.h) and put the
// parts together (sm90_forward_merge.cuh). Or the two blocks of a cluster have neighbouring tiles
// of queries, and each brings half of every tile of keys for both. float32 is two bfloat16
// (hopper/split.cuh); then a tile's P V begins at 0 and is added to O in float32, because tensor
// cores cut sums off (NOTES.md, "fp32, near").

#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90_forward_merge.cuh"
#include "cuda/attention/store_rows.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/launch.cuh"

namespace paceline {

template <class Tile, class F>
__device__ void for_each_item(const ForwardParameters& p, F&& f) {
  for (int round = 0; round < p.turns.rounds(); ++round) {
    const TileShare share = p.turns.share(round, static_cast<int>(blockIdx.x));
    if (share.tile >= 0) f(ForwardItem<Tile>(p, share), round);
  }
}

// Whether the two blocks of a cluster bring keys for each other.
template <class Tile>
__device__ bool shares_keys(const ForwardParameters& p) {
  return Tile::pairs && p.paired;
}

template <class Tile>
__device__ void load_queries(const ForwardParameters& p, ForwardShared<Tile>& shared,
                             const ForwardItem<Tile>& item) {
  shared.q_full.arrive_and_expect(ForwardShared<Tile>::Queries::bytes);
  load(shared.q, p.q, shared.q_full, item.first_query, item.head, item.batch);
}

// Asks for the queries and last keys of a block's item of round 0, before anything else and by one
// thread: what a short call takes is mostly waiting for memory that is not cached, for instructions
// too. So the code of this is short and where the kernel begins. Not where blocks share keys, as
// the other's barriers may not be there yet.
template <class Tile>
__device__ void load_ahead(const ForwardParameters& p, ForwardShared<Tile>& shared) {
  const TileShare share = p.turns.share(0, static_cast<int>(blockIdx.x));
  if (share.tile < 0) return;
  const ForwardItem<Tile> item(p, share);
  if (item.first == item.end) return;
  load_queries(p, shared, item);
  shared.k_full[0].arrive_and_expect(ForwardShared<Tile>::Keys::bytes);
  load(shared.k[0], p.k, shared.k_full[0], (item.end - 1) * Tile::keys, item.head, item.batch);
}

template <class Tile>
__device__ void produce(const ForwardParameters& p, ForwardShared<Tile>& shared) {
  using namespace hopper;
  using Shared = ForwardShared<Tile>;
  using Place = RingPlace<Tile::stages>;
  Place k;
  Place v;
  const auto load_keys = [&](Place& place, auto* tiles, const CUtensorMap& map, Barrier* full,
                             Barrier* empty, int n, const ForwardItem<Tile>& item) {
    const int s = place.stage;
    empty[s].wait(place.parity ^ 1);
    full[s].arrive_and_expect(Shared::Keys::bytes);
    const int key = n * Tile::keys;
    if constexpr (Tile::pairs) {
      if (shares_keys<Tile>(p)) {
        load_half_for_both(tiles[s], map, full[s], block_rank(), key, item.head, item.batch);
        return place.advance();
      }
    }
    load(tiles[s], map, full[s], key, item.head, item.batch);
    place.advance();
  };
  int parity = 0;
  for_each_item<Tile>(p, [&](const ForwardItem<Tile>& item, int round) {
    if (item.first == item.end) return;
    const auto load_k = [&](int n) {
      load_keys(k, shared.k, p.k, shared.k_full, shared.k_empty, n, item);
    };
    if (round == 0 && !shares_keys<Tile>(p)) {
      k.advance();  // load_ahead() has asked for them
    } else {
      shared.q_empty.wait(parity ^ 1);
      load_queries(p, shared, item);
      load_k(item.end - 1);
    }
    parity ^= 1;
#pragma unroll 1  // short code: each kilobyte that is not cached yet takes a microsecond
    for (int n = item.end - 1; n >= item.first; --n) {
      if (n > item.first) load_k(n - 1);  // needed before V of this tile
      load_keys(v, shared.v, p.v, shared.v_full, shared.v_empty, n, item);
    }
  });
  if (shares_keys<Tile>(p)) {  // a block whose barriers the other still arrives at must not end
    for (int s = 0; s < Tile::stages; ++s, k.advance(), v.advance()) {
      shared.k_empty[k.stage].wait(k.parity ^ 1);
      shared.v_empty[v.stage].wait(v.parity ^ 1);
    }
  }
}

// Scores of keys behind the last that a row of queries sees become -infinity.
template <int Keys>
__device__ void mask(hopper::Accumulator<Keys>& s, RowPair<int> last) {
  using Scores = hopper::Accumulator<Keys>;
#pragma unroll
  for (int i = 0; i < Scores::elements; ++i) {
    if (Scores::col(i) > last.of[Scores::half(i)]) s.at[i] = -INFINITY;
  }
}

template <class Tile>
__device__ void consume(const ForwardParameters& p, ForwardShared<Tile>& shared, int warpgroup) {
  using namespace hopper;
  using T = typename Tile::Element;
  // Warpgroups take turns in giving the tensor cores work.
  const auto await_turn = [&] {
    if constexpr (Tile::warpgroups > 1) named_barrier_sync(1 + warpgroup, 2 * warpgroup_threads);
  };
  const auto end_turn = [&] {
    if constexpr (Tile::warpgroups > 1) {
      named_barrier_arrive(1 + (warpgroup + 1) % Tile::warpgroups, 2 * warpgroup_threads);
    }
  };
  const auto release_q = [&] {
    if (lane() == 0) shared.q_empty.arrive();
  };
  const auto release = [&](Barrier& empty) {
    if (lane() == 0) empty.arrive();
    if (shares_keys<Tile>(p) && lane() == 1) empty.arrive_at(block_rank() ^ 1);
  };
  if (warpgroup == Tile::warpgroups - 1) end_turn();

  RingPlace<Tile::stages> k;
  RingPlace<Tile::stages> v;
  int parity = 0;
  int merges = 0;
  for_each_item<Tile>(p, [&](const ForwardItem<Tile>& item, int) {
    const int first_query = item.first_query + 64 * warpgroup;
    Accumulator<Tile::head_dim> o;
    Accumulator<Tile::head_dim> of_tile;
    auto& product = Tile::splits ? of_tile : o;
    Accumulator<Tile::keys> s;
    typename Tile::Probabilities probabilities;
    OnlineRows rows;
    RowPair<float> logsumexp{{-INFINITY, -INFINITY}};

    const auto mask_tile = [&](int n) {
      const int first_key = n * Tile::keys;
      const int row = p.order.causal() ? first_query + s.row() : p.context;
      mask(s, {min(row, p.context - 1) - first_key, min(row + 8, p.context - 1) - first_key});
    };
    const auto await_keys = [&] { shared.k_full[k.stage].wait(k.parity); };
    const auto start_scores = [&] {
      begin(s);
      mma_abt(s, shared.q, 64 * warpgroup, shared.k[k.stage]);
      commit();
    };
    const auto start_outputs = [&](bool add) {
      shared.v_full[v.stage].wait(v.parity);
      begin(product, probabilities);
      mma_ab(product, probabilities, shared.v[v.stage], add && !Tile::splits);
      commit();
    };
    const auto await_outputs = [&] {
      wait<0>(product, probabilities);
      release(shared.v_empty[v.stage]);
      v.advance();
      if constexpr (Tile::splits) add(o, of_tile);
    };

    const auto attend = [&] {
      if constexpr (Tile::splits) clear(o);
      shared.q_full.wait(parity);
      parity ^= 1;
      await_keys();
      int n = item.end - 1;
      await_turn();
      start_scores();
      end_turn();
      wait<0>(s);
      release(shared.k_empty[k.stage]);
      k.advance();
      if (n >= item.whole) mask_tile(n);
      rows.take(s, p.factor);
      round_to_operand<T>(probabilities, s);
      if (n > item.first) await_keys();

      while (n > item.first) {
        await_turn();
        start_scores();
        start_outputs(n < item.end - 1);
        end_turn();
        --n;
        wait<1>(s);
        release(shared.k_empty[k.stage]);
        k.advance();
        if (n >= item.whole) mask_tile(n);
        const Correction correction = rows.take(s, p.factor);
        // Here, because the assembler moves no exponentials past a branch: else it would take them
        // after the product that they are to hide behind.
        if (n > item.first) await_keys();
        await_outputs();
        if (correction.needed || !Tile::skips_correction) scale_rows(o, correction.factor);
        round_to_operand<T>(probabilities, s);
      }

      release_q();
      start_outputs(item.end - item.first > 1);
      const RowPair<float> factor = rows.finish(logsumexp);
      await_outputs();
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
    } else if constexpr (Tile::divides) {
      merge(p, shared, item, o, logsumexp, warpgroup, merges++);
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
    shared.init_barriers(p.turns.cluster(), p.paired);
    if (!shares_keys<Tile>(p)) load_ahead(p, shared);
  }
  __syncthreads();
  if (p.turns.cluster() > 1) cluster_arrive();
  if (p.paired) cluster_wait();  // else merge() waits
  if (warpgroup == 0) {
    give_up_registers<Tile::producer_registers>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    take_registers<Tile::consumer_registers>();
    consume(p, shared, warpgroup - 1);
  }
}

template <class Tile>
void start_forward(const FlashForward& call, const ForwardPlan& plan) {
  using hopper::tensor_map;
  const FlashShape& shape = call.shape;
  constexpr int d = Tile::head_dim;
  const int keys_of_load = plan.paired ? Tile::keys / 2 : Tile::keys;
  const ForwardParameters parameters{.q = tensor_map(call.q, shape, Tile::queries, d),
                                     .k = tensor_map(call.k, shape, keys_of_load, d),
                                     .v = tensor_map(call.v, shape, keys_of_load, d),
                                     .o = call.o,
                                     .logsumexp = call.logsumexp,
                                     .context = static_cast<int>(shape.context),
                                     .factor = call.scale * log2e,
                                     .paired = plan.paired,
                                     .order = plan.order,
                                     .turns = plan.turns};
  constexpr std::size_t bytes = sizeof(ForwardShared<Tile>);
  static_assert(bytes <= 227 * 1024);
  launch({static_cast<unsigned>(plan.turns.blocks()), Tile::threads, call.stream, bytes,
          static_cast<unsigned>(plan.turns.cluster())},
         sm90_forward_kernel<Tile>, parameters);
}

}  // namespace paceline
