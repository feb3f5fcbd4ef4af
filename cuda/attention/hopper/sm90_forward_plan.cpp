#include <algorithm>
#include <limits>

#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/hopper/sm90_forward.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

namespace {

struct Candidate {
  int warpgroups;
  TileOrder order;
};

int keys_of(const FlashShape& shape, int warpgroups) {
  return forward_keys(shape.head_dim, warpgroups, shape.dtype == Dtype::f32);
}

Candidate candidate(const FlashShape& shape, int warpgroups) {
  const int queries = 64 * warpgroups;
  const auto context = static_cast<int>(shape.context);
  const auto bytes_of_key =  // K and V
      static_cast<int>(2 * shape.head_dim * static_cast<std::int64_t>(size_of(shape.dtype)));
  return {warpgroups, TileOrder({.context = context,
                                 .heads = static_cast<int>(shape.heads),
                                 .batch = static_cast<int>(shape.batch),
                                 .outer = queries,
                                 .inner = keys_of(shape, warpgroups),
                                 .causal = shape.causal,
                                 .reach = (context + queries - 1) / queries * queries,
                                 .section = heads_per_section(shape, bytes_of_key)})};
}

// In units of the step of two warpgroups over 128 keys. Measured (NOTES.md); bf16x3 is assumed to
// be in proportion.
struct Costs {
  double step;      // one tile of keys, of forward_keys()
  double start_up;  // of a tile, or a part of it
  double combine;   // of a tile's split-KV parts
};

double cost_of_step(std::int64_t head_dim, int warpgroups) {
  switch (warpgroups) {
    case 1: return 0.74;
    case 2: return 1;
    case 3: return head_dim == 80 ? 0.97 : head_dim == 64 ? 1.24 : 1.37;
    default: return head_dim == 64 ? 0.83 : head_dim == 32 ? 0.93 : 1.35;
  }
}

Costs costs_of(const Candidate& c, std::int64_t head_dim) {
  return {.step = cost_of_step(head_dim, c.warpgroups),
          .start_up = 0.8,
          .combine = 0.75 + 0.25 * c.warpgroups * static_cast<double>(head_dim) / 64};
}

double estimated(const Candidate& c, const Costs& costs, const SnakeScheduler& scheduler) {
  const int parts = scheduler.cluster_size();
  const int longest = c.order.longest();
  const double mean = (longest + c.order.inner_tiles(c.order.tiles_per_head() - 1)) / 2.0;
  const double whole = longest * costs.step + costs.start_up;
  const double beside_steps = costs.start_up + (parts > 1 ? costs.combine : 0);
  const int longest_part = (longest + parts - 1) / parts;
  const double part = longest_part * costs.step + beside_steps;
  if (scheduler.blocks() > multiprocessors()) {  // a block starts when another one ends
    constexpr double block = 1;
    const double share = static_cast<double>(scheduler.tiles()) / multiprocessors();
    return std::max(whole + block, share * (mean * costs.step + costs.start_up + block));
  }
  if (c.order.causal() && scheduler.waves() > 1) {
    const double share = static_cast<double>(scheduler.tiles()) / scheduler.clusters();
    // Snake order does not balance the last wave of an odd number.
    const double odd = scheduler.waves() % 2 == 1 ? longest / share / 2 : 0;
    return std::max(part,
                    (share * mean + odd) / parts * costs.step + scheduler.waves() * beside_steps);
  }
  const int split_waves = scheduler.waves() - scheduler.data_parallel_waves();
  return scheduler.data_parallel_waves() * whole + split_waves * part;
}

// One block for each tile. With a causal mask tiles are in LPT order within each section only.
// Snake order over several sections leaves some blocks with 30% more work than others.
SnakeScheduler block_per_tile(int tiles) {
  return SnakeScheduler(
      {.tiles = tiles, .data_parallel_tiles = tiles, .log2_parts = 0, .blocks = tiles});
}
SnakeScheduler persistent(int tiles) {
  return SnakeScheduler({.tiles = tiles,
                         .data_parallel_tiles = tiles,
                         .log2_parts = 0,
                         .blocks = std::min(tiles, multiprocessors())});
}
SnakeScheduler data_parallel(const TileOrder& order) {
  return order.causal() && order.has_sections() ? block_per_tile(order.tiles())
                                                : persistent(order.tiles());
}
SnakeScheduler split_kv(int tiles, int log2_parts) {
  const int clusters = std::min(tiles, sm90_forward_clusters(log2_parts));
  const int blocks = clusters << log2_parts;
  return SnakeScheduler(
      {.tiles = tiles, .data_parallel_tiles = 0, .log2_parts = log2_parts, .blocks = blocks});
}
// Splits only the tiles that do not fill a wave.
SnakeScheduler split_kv_last_wave(int tiles, int log2_parts) {
  const int blocks = sm90_forward_clusters(log2_parts) << log2_parts;
  const int whole = tiles / blocks * blocks;
  return SnakeScheduler(
      {.tiles = tiles, .data_parallel_tiles = whole, .log2_parts = log2_parts, .blocks = blocks});
}

}  // namespace

ForwardPlan::ForwardPlan(const FlashShape& shape) {
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Candidate& c, const SnakeScheduler& candidate_scheduler) {
    const double time = estimated(c, costs_of(c, shape.head_dim), candidate_scheduler);
    if (time >= least) return;
    least = time;
    warpgroups = c.warpgroups;
    order = c.order;
    scheduler = candidate_scheduler;
  };
  const bool is_bf16x3 = shape.dtype == Dtype::f32;
  for (int w = is_bf16x3 ? max_bf16x3_warpgroups : max_warpgroups(shape.head_dim); w >= 1; --w) {
    const Candidate c = candidate(shape, w);
    const int tiles = c.order.tiles();
    consider(c, data_parallel(c.order));
    if (is_bf16x3) continue;
    for (int log2_parts = 1; log2_parts <= max_log2_parts; ++log2_parts) {
      // The process may be limited to a few multiprocessors.
      if (sm90_forward_clusters(log2_parts) == 0) continue;
      consider(c, split_kv(tiles, log2_parts));
      // With a causal mask the first tiles are the longest, and those are the ones to split.
      if (!shape.causal) consider(c, split_kv_last_wave(tiles, log2_parts));
    }
  }
}

FlashTiles sm90_forward_tiles(const FlashShape& shape) {
  const ForwardPlan plan(shape);
  return {"sm90", 64 * plan.warpgroups, keys_of(shape, plan.warpgroups), plan.parts()};
}

}  // namespace paceline
