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

#include "cuda/attention/head_dim.h"
#include "cuda/attention/online_rows.cuh"
#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/attention/store_rows.cuh"
#include "cuda/attention/tile_order.h"
#include "cuda/current_device.h"
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
  static constexpr int threads = warpgroup_threads * (Warpgroups + 1);
  // Of 64 Ki registers, what the producer gives up.
  static constexpr int producer_registers = Warpgroups == 3 ? 32 : 24;
  static constexpr int consumer_registers = Warpgroups == 3 ? 160 : 240;
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

  __device__ void init_barriers() {
    constexpr int consumer_warps = 4 * Tile::warpgroups;
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
  ForwardSpace space;
  int context;
  float factor;  // scale log2(e)
  TileOrder order;
  int items;
};

// A tile of queries and tiles of the keys that it sees, from the last to the first; those from
// `whole` on have keys that not every query sees.
template <class Tile>
struct Item {
  int head;
  int batch;
  int first_query;
  int part;
  int first;
  int end;
  int whole;

  __device__ Item(const Parameters& p, int index) {
    const WorkItem work = p.order.at(index);
    const int seen = p.order.seen(work.rank);
    head = work.head;
    batch = work.batch;
    first_query = (p.order.blocks() - 1 - work.rank) * Tile::queries;
    part = work.first / p.order.span();
    first = seen - work.end;
    end = seen - work.first;
    whole = (p.order.causal() ? min(p.context, first_query + 1) : p.context) / Tile::keys;
  }
};

// Every item of this block that has keys. Blocks take theirs in turns, from the first block to the
// last and back: who has had the longest of a round gets the shortest of the next.
template <class Tile, class F>
__device__ void for_each_item(const Parameters& p, F&& f) {
  const auto blocks = static_cast<int>(gridDim.x);
  const auto block = static_cast<int>(blockIdx.x);
  for (int round = 0; round * blocks < p.items; ++round) {
    const int index = round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
    if (index >= p.items) break;
    const Item<Tile> item(p, index);
    if (item.first < item.end) f(item);
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
  for_each_item<Tile>(p, [&](const Item<Tile>& item) {
    const int first_query = item.first_query + 64 * warpgroup;
    Accumulator<Tile::head_dim> o;
    Accumulator<Tile::keys> s;
    Operand<Tile::keys> probabilities;
    OnlineRows rows;

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
    RowPair<float> logsumexp;
    const RowPair<float> factor = rows.finish(logsumexp);
    wait<0>(o, probabilities);
    release(shared.v_empty[v.stage]);
    v.advance();
    scale_rows(o, factor);

    const std::int64_t bh = static_cast<std::int64_t>(item.batch) * p.order.heads() + item.head;
    float* l = p.logsumexp + bh * p.context;
    if (p.space.o == nullptr) {
      T* const to = p.o.head<T>(item.batch, item.head);
      store_rows(to, p.o.row_stride, o, first_query, p.context);
    } else {
      const std::int64_t row = (std::int64_t{item.part} * p.order.all_heads() + bh) * p.context;
      l = p.space.logsumexp + row;
      store_sums(p.space.o + row * Tile::head_dim, o, first_query, p.context);
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_query + o.row() + 8 * h;
      if (threadIdx.x % 4 == 0 && row < p.context) l[row] = logsumexp.of[h];
    }
  });
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
    shared.init_barriers();
  }
  __syncthreads();
  if (warpgroup == 0) {
    give_up_registers<Tile::producer_registers>();
    if (threadIdx.x == 0) produce(p, shared);
  } else {
    take_registers<Tile::consumer_registers>();
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
                              .space = plan.at(call.workspace),
                              .context = static_cast<int>(shape.context),
                              .factor = call.scale * log2e,
                              .order = plan.order,
                              .items = plan.order.items()};
  constexpr std::size_t bytes = sizeof(Shared<Tile>);
  static_assert(bytes <= 227 * 1024);
  auto* const kernel = sm90_forward_kernel<Tile>;
  const auto blocks = static_cast<unsigned>(min(parameters.items, multiprocessors()));
  launch({blocks, Tile::threads, call.stream, bytes}, kernel, parameters);
  if (plan.divides()) sm90_forward_merge(call, plan);
}

}  // namespace

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
      call.shape.causal ? start_with.template operator()<forward_keys(d, true)>()
                        : start_with.template operator()<forward_keys(d, false)>();
    });
  });
}

}  // namespace paceline
