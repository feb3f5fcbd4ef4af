// FlashAttention-2's forward pass (Dao, arXiv:2307.08691, algorithm 1) on Hopper: for a tile of
// queries Q, over tiles of keys K and values V,
//
//   S = Q K^T,  m' = max(m, rowmax(S)),  P = exp(scale (S - m')),
//   l = exp(scale (m - m')) l + rowsum(P),  O = exp(scale (m - m')) O + P V;
//   at the end O / l and L = scale m + log(l).
//
// As FlashAttention-3 (Shah et al., arXiv:2407.08608) arranges it: a producer warp has the copy
// engine bring tiles into rings in shared memory; consumer warpgroups have 64 rows of queries each.
// The product S of a tile runs while the exponentials of the tile before are taken, and while one
// warpgroup takes exponentials, another has the tensor cores.

#include <array>

#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/attention/tile_order.h"
#include "cuda/current_device.h"
#include "cuda/exponential.cuh"
#include "cuda/hopper/cluster.cuh"
#include "cuda/hopper/tensor_map.h"
#include "cuda/hopper/tma.cuh"
#include "cuda/launch.cuh"

namespace paceline {

namespace {

using namespace hopper;

template <class T, int HeadDim, int Warpgroups, int Keys>
struct Tile {
  using Element = T;
  static constexpr int head_dim = HeadDim;
  static constexpr int warpgroups = Warpgroups;  // consumers
  static constexpr int queries = 64 * Warpgroups;
  static constexpr int keys = Keys;
  static constexpr int stages = 2;
  static constexpr bool divides = Keys == forward_keys;  // has room for parts' results
  static constexpr int threads = warpgroup_threads * (Warpgroups + 1);
  // Of 64 Ki registers, what the producer gives up.
  static constexpr int producer_registers = Warpgroups == 3 ? 32 : 24;
  static constexpr int consumer_registers = Warpgroups == 3 ? 160 : 240;
  static_assert(registers_suffice(Warpgroups, producer_registers, consumer_registers));
};

template <class Tile>
struct Shared {
  using T = typename Tile::Element;
  SharedTile<T, Tile::queries, Tile::head_dim> q;
  SharedTile<T, Tile::keys, Tile::head_dim> k[Tile::stages];
  SharedTile<T, Tile::keys, Tile::head_dim> v[Tile::stages];
  Barrier q_full, q_empty;
  Barrier k_full[Tile::stages], k_empty[Tile::stages];
  Barrier v_full[Tile::stages], v_empty[Tile::stages];
  // This block's part of O and the logsumexp, for the cluster. O as accumulators have it, so many
  // columns of all threads after others.
  float4 o[Tile::divides ? Tile::warpgroups * Tile::head_dim / 8 * warpgroup_threads : 1];
  float logsumexp[Tile::queries];
  Barrier parts_full, parts_empty;

  __device__ void init_barriers(int parts) {
    constexpr int consumer_warps = 4 * Tile::warpgroups;
    parts_full.init(parts * consumer_warps);
    parts_empty.init(parts * consumer_warps);
    q_full.init(1);
    q_empty.init(consumer_warps);
    for (int s = 0; s < Tile::stages; ++s) {
      k_full[s].init(1);
      v_full[s].init(1);
      k_empty[s].init(consumer_warps);
      v_empty[s].init(consumer_warps);
    }
    barriers_are_ready();
  }
};

struct Parameters {
  CUtensorMap q, k, v;
  FlashHeads o;
  float* logsumexp;  // [B, H, T]
  int context;
  float factor;  // scale log2(e)
  TileOrder order;
  Turns turns;
};

// A tile of queries and the tiles of keys that it sees, or this block's part of them, from the last
// to the first; those from `whole` on have keys that not every query sees.
template <class Tile>
struct Item {
  int head;
  int batch;
  int first_query;
  int part;
  int parts;
  int first;
  int end;
  int whole;

  __device__ Item(const Parameters& p, const TileShare& share)
      : part(share.part), parts(share.parts) {
    const WorkItem work = p.order.at(share.tile);
    head = work.head;
    batch = work.batch;
    first_query = (p.order.blocks() - 1 - work.rank) * Tile::queries;
    first = work.end * part / parts;
    end = work.end * (part + 1) / parts;
    whole = (p.order.causal() ? min(p.context, first_query + 1) : p.context) / Tile::keys;
  }
};

template <class Tile, class F>
__device__ void for_each_item(const Parameters& p, F&& f) {
  for (int round = 0; round < p.turns.rounds(); ++round) {
    const TileShare share = p.turns.share(round, static_cast<int>(blockIdx.x));
    if (share.tile >= 0) f(Item<Tile>(p, share));
  }
}

template <class Tile>
__device__ void produce(const Parameters& p, Shared<Tile>& shared) {
  using T = typename Tile::Element;
  constexpr int q_bytes = SharedTile<T, Tile::queries, Tile::head_dim>::bytes;
  constexpr int kv_bytes = SharedTile<T, Tile::keys, Tile::head_dim>::bytes;
  RingPlace<Tile::stages> k;
  RingPlace<Tile::stages> v;
  int parity = 0;
  for_each_item<Tile>(p, [&](const Item<Tile>& item) {
    if (item.first == item.end) return;
    const auto load_k = [&](int n) {
      shared.k_empty[k.stage].wait(k.parity ^ 1);
      shared.k_full[k.stage].arrive_and_expect(kv_bytes);
      load(shared.k[k.stage], p.k, shared.k_full[k.stage], n * Tile::keys, item.head, item.batch);
      k.advance();
    };
    shared.q_empty.wait(parity ^ 1);
    shared.q_full.arrive_and_expect(q_bytes);
    load(shared.q, p.q, shared.q_full, item.first_query, item.head, item.batch);
    parity ^= 1;
    load_k(item.end - 1);
    for (int n = item.end - 1; n >= item.first; --n) {
      if (n > item.first) load_k(n - 1);  // needed before V of this tile
      shared.v_empty[v.stage].wait(v.parity ^ 1);
      shared.v_full[v.stage].arrive_and_expect(kv_bytes);
      load(shared.v[v.stage], p.v, shared.v_full[v.stage], n * Tile::keys, item.head, item.batch);
      v.advance();
    }
  });
}

// Scores of keys behind the last that a row of queries sees become -infinity.
template <int Keys>
__device__ void mask(Accumulator<Keys>& s, RowPair<int> last) {
  using Scores = Accumulator<Keys>;
#pragma unroll
  for (int i = 0; i < Scores::elements; ++i) {
    if (Scores::col(i) > last.of[Scores::half(i)]) s.at[i] = -INFINITY;
  }
}

// O and the logsumexp of a tile whose keys the blocks of a cluster have seen in parts:
//   L = log(sum_p exp(L_p)),  O = sum_p exp(L_p - L) O_p.
// Each block puts together every so many groups of eight columns. By all consumers of the cluster,
// for the first time with parity 0, then 1.
template <class Tile>
__device__ void merge(const Parameters& p, Shared<Tile>& shared, const Item<Tile>& item,
                      const Accumulator<Tile::head_dim>& o, RowPair<float>& logsumexp,
                      int warpgroup, int parity) {
  using T = typename Tile::Element;
  constexpr int groups = Tile::head_dim / 8;
  const int thread = static_cast<int>(threadIdx.x) % warpgroup_threads;
  float4* const own_o = shared.o + warpgroup * groups * warpgroup_threads + thread;
  float* const own_logsumexp = shared.logsumexp + 64 * warpgroup + o.row();
  shared.parts_empty.wait_for_cluster(parity ^ 1);
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    own_o[g * warpgroup_threads] =
        make_float4(o.at[4 * g], o.at[4 * g + 1], o.at[4 * g + 2], o.at[4 * g + 3]);
  }
  for (int h = 0; h < 2; ++h) own_logsumexp[8 * h] = logsumexp.of[h];
  __syncwarp();
  if (lane() < item.parts) shared.parts_full.arrive_at(lane());
  shared.parts_full.wait_for_cluster(parity);

  RowPair<float> highest{{-INFINITY, -INFINITY}};
  RowPair<float> sum{{0, 0}};
  const auto for_each_part = [&](auto&& f) {
    for (int part = 0; part < item.parts; ++part) {
      const float* const l = of_block(own_logsumexp, part);
      f(part, RowPair<float>{{l[0] * log2e, l[8] * log2e}});
    }
  };
  for_each_part([&](int, const RowPair<float>& l) {
    for (int h = 0; h < 2; ++h) highest.of[h] = fmaxf(highest.of[h], l.of[h]);
  });
  constexpr int most_groups = groups / 2;
  float4 out[most_groups] = {};
  for_each_part([&](int part, const RowPair<float>& l) {
    const float upper = fast_exp2(l.of[0] - highest.of[0]);
    const float lower = fast_exp2(l.of[1] - highest.of[1]);
    sum.of[0] += upper;
    sum.of[1] += lower;
    const float4* const from = of_block(own_o, part);
#pragma unroll
    for (int i = 0; i < most_groups; ++i) {
      const int g = item.part + i * item.parts;
      if (g >= groups) break;
      const float4 x = from[g * warpgroup_threads];
      out[i].x += upper * x.x;
      out[i].y += upper * x.y;
      out[i].z += lower * x.z;
      out[i].w += lower * x.w;
    }
  });
  __syncwarp();
  if (lane() < item.parts) shared.parts_empty.arrive_at(lane());

  const int row = item.first_query + 64 * warpgroup + o.row();
  T* const to = p.o.head<T>(item.batch, item.head) + row * p.o.row_stride + 2 * (thread % 4);
#pragma unroll
  for (int i = 0; i < most_groups; ++i) {
    const int g = item.part + i * item.parts;
    if (g >= groups) break;
    const auto store = [&](int h, float x, float y) {
      if (row + 8 * h >= p.context) return;
      *reinterpret_cast<std::uint32_t*>(to + 8 * h * p.o.row_stride + 8 * g) =
          packed<T>(x / sum.of[h], y / sum.of[h]);
    };
    store(0, out[i].x, out[i].y);
    store(1, out[i].z, out[i].w);
  }
  for (int h = 0; h < 2; ++h) logsumexp.of[h] = (highest.of[h] + log2f(sum.of[h])) / log2e;
}

template <class Tile>
__device__ void consume(const Parameters& p, Shared<Tile>& shared, int warpgroup) {
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
  const auto release = [](Barrier& empty) {
    if (lane() == 0) empty.arrive();
  };
  if (warpgroup == Tile::warpgroups - 1) end_turn();

  RingPlace<Tile::stages> k;
  RingPlace<Tile::stages> v;
  int parity = 0;
  int merge_parity = 0;
  for_each_item<Tile>(p, [&](const Item<Tile>& item) {
    const int first_query = item.first_query + 64 * warpgroup;
    Accumulator<Tile::head_dim> o;
    Accumulator<Tile::keys> s;
    Operand<Tile::keys> probabilities;
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
      begin(o, probabilities);
      mma_ab(o, probabilities, shared.v[v.stage], add);
      commit();
    };

    const auto attend = [&] {
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

      const auto step = [&](auto masked) {
        await_turn();
        start_scores();
        start_outputs(n < item.end - 1);
        end_turn();
        --n;
        wait<1>(s);
        release(shared.k_empty[k.stage]);
        k.advance();
        if constexpr (masked) mask_tile(n);
        const RowPair<float> correction = rows.take(s, p.factor);
        // Here, because the assembler moves no exponentials past a branch: else it would take them
        // after the product that they are to hide behind.
        if (n > item.first) await_keys();
        wait<0>(o, probabilities);
        release(shared.v_empty[v.stage]);
        v.advance();
        scale_rows(o, correction);
        round_to_operand<T>(probabilities, s);
      };
      while (n > max(item.first, item.whole)) step(std::true_type{});
      while (n > item.first) step(std::false_type{});

      release(shared.q_empty);
      start_outputs(item.end - item.first > 1);
      const RowPair<float> factor = rows.finish(logsumexp);
      wait<0>(o, probabilities);
      release(shared.v_empty[v.stage]);
      v.advance();
      scale_rows(o, factor);
    };
    if (item.first < item.end) {
      attend();
    } else {
      for (float& x : o.at) x = 0;
    }

    const std::int64_t bh = static_cast<std::int64_t>(item.batch) * p.order.heads() + item.head;
    if (item.parts == 1) {
      T* const to = p.o.head<T>(item.batch, item.head);
      store_rows(to, p.o.row_stride, o, first_query, p.context);
    } else if constexpr (Tile::divides) {
      merge(p, shared, item, o, logsumexp, warpgroup, merge_parity);
      merge_parity ^= 1;
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
  // Others may still read this block's part.
  if constexpr (Tile::divides) shared.parts_empty.wait_for_cluster(merge_parity ^ 1);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, 1)
    sm90_forward_kernel(const __grid_constant__ Parameters p) {
  wait_for_stream();
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<Tile>*>(memory);
  const int warpgroup = warpgroup_index();
  if (threadIdx.x == 0) {
    for (const CUtensorMap* map : {&p.q, &p.k, &p.v}) prefetch(*map);
    shared.init_barriers(p.turns.parts());
  }
  __syncthreads();
  if (p.turns.parts() > 1) cluster_arrive();
  if (warpgroup == 0) {
    give_up_registers<Tile::producer_registers>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    take_registers<Tile::consumer_registers>();
    if (p.turns.parts() > 1) cluster_wait();
    consume(p, shared, warpgroup - 1);
  }
}

template <class Tile>
void start(const FlashForward& call, const ForwardPlan& plan) {
  const FlashShape& shape = call.shape;
  constexpr int d = Tile::head_dim;
  const Parameters parameters{.q = tensor_map(call.q, shape, Tile::queries, d),
                              .k = tensor_map(call.k, shape, Tile::keys, d),
                              .v = tensor_map(call.v, shape, Tile::keys, d),
                              .o = call.o,
                              .logsumexp = call.logsumexp,
                              .context = static_cast<int>(shape.context),
                              .factor = call.scale * log2e,
                              .order = plan.order,
                              .turns = plan.turns};
  constexpr std::size_t bytes = sizeof(Shared<Tile>);
  static_assert(bytes <= 227 * 1024);
  launch({static_cast<unsigned>(plan.turns.blocks()), Tile::threads, call.stream, bytes,
          static_cast<unsigned>(plan.turns.parts())},
         sm90_forward_kernel<Tile>, parameters);
}

}  // namespace

// Every kernel's blocks take a multiprocessor each: this one's stand for all.
int sm90_forward_clusters(int blocks) {
  using Largest = Tile<__nv_bfloat16, 128, 2, forward_keys>;
  static const std::array<int, 9> most = [] {
    std::array<int, 9> found{};
    for (const unsigned size : {2, 4, 8}) {
      found.at(size) = resident_clusters({.blocks = size,
                                          .threads = Largest::threads,
                                          .shared_bytes = sizeof(Shared<Largest>),
                                          .cluster = size},
                                         sm90_forward_kernel<Largest>);
    }
    return found;
  }();
  return most.at(static_cast<std::size_t>(blocks));
}

void sm90_forward(const FlashForward& call) {
  const ForwardPlan plan(call.shape);
  dispatch_half(call.shape.dtype, [&]<class T>() {
    dispatch_head_dim(call.shape.head_dim, [&]<int d>() {
      const auto start_with = [&]<int Keys>() {
        if (plan.warpgroups == 1) return start<Tile<T, d, 1, Keys>>(call, plan);
        if constexpr (most_warpgroups(d) == 3) {
          if (plan.warpgroups == 3) return start<Tile<T, d, 3, Keys>>(call, plan);
        }
        start<Tile<T, d, 2, Keys>>(call, plan);
      };
      if constexpr (d == 128) {
        if (plan.keys == most_forward_keys) {
          return start_with.template operator()<most_forward_keys>();
        }
      }
      start_with.template operator()<forward_keys>();
    });
  });
}

}  // namespace paceline
