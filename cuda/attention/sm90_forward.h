#pragma once
// How Hopper's forward pass goes over the tiles.

#include "cuda/attention/flash.h"
#include "cuda/attention/snake_scheduler.h"
#include "cuda/attention/tile_order.h"

namespace paceline {

// A tile has 64 rows of queries for each consumer warpgroup. More take less time for each, but
// leave registers for fewer keys.
constexpr int max_warpgroups(std::int64_t head_dim) {
  return head_dim <= 64 ? 4 : head_dim == 80 ? 3 : 2;
}
inline constexpr int max_bf16x3_warpgroups = 2;

// Keys of a tile: the fastest number that spills no register and fits into shared memory, where
// split operands take twice as much, and rows of 80 columns as much as 128.
constexpr int forward_keys(std::int64_t head_dim, int warpgroups, bool is_bf16x3) {
  if (is_bf16x3) return head_dim <= 64 ? 128 : 64;
  if (warpgroups == 4) return head_dim == 16 ? 96 : 64;
  return head_dim == 80 && warpgroups == 3 ? 96 : 128;
}

// Tiles of keys, and as many of values, in shared memory or on their way.
constexpr int forward_stages(std::int64_t head_dim, bool is_bf16x3) {
  return head_dim <= 64 && !is_bf16x3 ? 3
                                      : 2;  // three for the others do not fit, or were not tried
}

// Into how many parts the keys of a tile may be divided: clusters of eight blocks leave more
// multiprocessors idle and take twice as long to put parts together.
inline constexpr int max_log2_parts = 2;

struct ForwardPlan {
  explicit ForwardPlan(const FlashShape& shape);

  int warpgroups = 1;
  TileOrder order;  // of tiles of queries, over tiles of keys
  SnakeScheduler scheduler;

  // Of the keys that a tile sees.
  [[nodiscard]] int parts() const { return scheduler.cluster_size(); }
};

// For inputs of these types; near: float32, each element as high + low, both bfloat16.
void sm90_forward_bf16(const FlashForward& call);
void sm90_forward_fp16(const FlashForward& call);
void sm90_forward_bf16x3(const FlashForward& call);

// Clusters of 2^log2_parts blocks, 2 or more, that run at the same time.
[[nodiscard]] int sm90_forward_clusters(int log2_parts);

}  // namespace paceline
