#pragma once
// Tiles, shared memory and work items of Hopper's forward pass.

#include <cuda.h>

#include <array>
#include <cstdint>
#include <type_traits>

#include "cuda/attention/hopper/sm90_forward.h"
#include "cuda/hopper/shared_tile.cuh"
#include "cuda/hopper/split.cuh"
#include "cuda/hopper/warpgroup.cuh"

namespace paceline {

// T: bfloat16, float16, or float (as two bfloat16).
template <class T, int HeadDim, int Warpgroups>
struct ForwardTile {
  using Element = T;
  static constexpr bool is_bf16x3 = std::is_same_v<T, float>;
  static constexpr int head_dim = HeadDim;
  static constexpr int warpgroups = Warpgroups;  // consumers
  static constexpr int queries = 64 * Warpgroups;
  static constexpr int keys = forward_keys(HeadDim, Warpgroups, is_bf16x3);
  static constexpr int stages = forward_stages(HeadDim, is_bf16x3);
  template <int Rows>
  using Shared = std::conditional_t<is_bf16x3, hopper::SplitTile<Rows, HeadDim>,
                                    hopper::SharedTile<T, Rows, HeadDim>>;
  using Probabilities =
      std::conditional_t<is_bf16x3, hopper::SplitOperand<keys>, hopper::Operand<keys>>;
  // Without a new maximum, a thread's exponentials of a tile must sum to less than this, so that P
  // and O can hold them.
  static constexpr float limit = std::is_same_v<T, __half> ? 0x1p14F : 0x1p24F;
  static constexpr bool supports_parts = !is_bf16x3;  // shared memory for split-KV results
  static constexpr int max_parts = 1 << max_log2_parts;
  static constexpr int groups = HeadDim / 8;  // of eight columns of O
  // The most that a block receives: every parts-th group from each of `parts` blocks.
  static constexpr int groups_received = (groups + max_parts - 1) / max_parts * max_parts;
  static constexpr int consumer_threads = hopper::warpgroup_threads * Warpgroups;
  static constexpr int threads = hopper::warpgroup_threads + consumer_threads;
  // setmaxnreg: the producer hands registers to the consumers.
  static constexpr int producer_registers = Warpgroups >= 3 ? 32 : 24;
  static constexpr int consumer_registers = std::array<int, 5>{0, 248, 240, 160, 112}[Warpgroups];
  static_assert(hopper::registers_suffice(Warpgroups, producer_registers, consumer_registers));
};

template <class Tile>
struct ForwardShared {
  using Queries = typename Tile::template Shared<Tile::queries>;
  using Keys = typename Tile::template Shared<Tile::keys>;
  Queries q;
  Keys k[Tile::stages];
  Keys v[Tile::stages];
  hopper::Barrier q_full, q_empty;
  hopper::Barrier k_full[Tile::stages], k_empty[Tile::stages];
  hopper::Barrier v_full[Tile::stages], v_empty[Tile::stages];
  // Split-KV results that the blocks of the cluster send: groups of eight columns of O, in the
  // order of the accumulators, and the logsumexp.
  float4 o[Tile::supports_parts ? Tile::groups_received : 1][Tile::consumer_threads];
  float logsumexp[Tile::supports_parts ? Tile::max_parts : 1][Tile::queries];
  hopper::Barrier parts_full, parts_empty;

  __device__ void init_barriers(int cluster) {
    constexpr int consumer_warps = 4 * Tile::warpgroups;
    parts_full.init(1);
    parts_empty.init(cluster * consumer_warps);
    q_full.init(1);
    q_empty.init(Tile::consumer_threads);
    for (int s = 0; s < Tile::stages; ++s) {
      k_full[s].init(1);
      v_full[s].init(1);
      k_empty[s].init(Tile::consumer_threads);
      v_empty[s].init(Tile::consumer_threads);
    }
    hopper::barriers_are_ready();
  }
};

struct ForwardParameters {
  CUtensorMap q, k, v;
  FlashHeads o;
  float* logsumexp;  // [B, H, T]
  int context;
  float factor;  // scale log2(e)
  TileOrder order;
  SnakeScheduler scheduler;
};

// A tile of queries and tiles of keys `first` to `end`: all that the tile sees, or the block's
// split-KV part of them. Tiles from first_masked on have keys that not every query sees.
template <class Tile>
struct ForwardItem {
  int head;
  int batch;
  int first_query;
  int part;
  int log2_parts;
  int first;
  int end;
  int first_masked;

  __device__ ForwardItem(const ForwardParameters& p, const ScheduledTile& scheduled)
      : part(scheduled.part), log2_parts(scheduled.log2_parts) {
    const WorkItem work = p.order.tile(scheduled.tile);
    head = work.head;
    batch = work.batch;
    first_query = (p.order.tiles_per_head() - 1 - work.index_in_head) * Tile::queries;
    first = work.end * part >> log2_parts;
    end = work.end * (part + 1) >> log2_parts;
    first_masked = (p.order.causal() ? min(p.context, first_query + 1) : p.context) / Tile::keys;
  }
};

}  // namespace paceline
