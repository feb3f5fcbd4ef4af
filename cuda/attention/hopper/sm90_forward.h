#pragma once
// Tile sizes and schedule of Hopper's forward pass.

#include "cuda/attention/flash.h"
#include "cuda/attention/schedule/snake_scheduler.h"
#include "cuda/attention/schedule/tile_order.h"

namespace paceline {

// A tile has 64 rows of queries for each consumer warpgroup. More warpgroups take less time per
// row, but leave registers for fewer keys.
constexpr int max_warpgroups(std::int64_t head_dim) {
  return head_dim <= 64 ? 4 : head_dim == 80 ? 3 : 2;
}
inline constexpr int max_bf16x3_warpgroups = 2;

// Keys of a tile: the fastest number that spills no registers and fits into shared memory. There
// bf16x3 operands take twice the space, and rows of 80 columns as much as rows of 128.
constexpr int forward_keys(std::int64_t head_dim, int warpgroups, bool is_bf16x3) {
  if (is_bf16x3) return head_dim <= 64 ? 128 : 64;
  if (warpgroups == 4) return head_dim == 16 ? 96 : 64;
  return head_dim == 80 && warpgroups == 3 ? 96 : 128;
}

// Stages of the ring of keys, and of the ring of values.
constexpr int forward_stages(std::int64_t head_dim, bool is_bf16x3) {
  return head_dim <= 64 && !is_bf16x3 ? 3 : 2;  // three do not fit, or were not tried
}

// At most four split-KV parts. Clusters of eight blocks leave more multiprocessors idle and take
// twice as long to combine the parts.
inline constexpr int max_log2_parts = 2;

struct ForwardPlan {
  explicit ForwardPlan(const FlashShape& shape);

  int warpgroups = 1;
  TileOrder order;  // outer tiles: queries; inner tiles: keys
  SnakeScheduler scheduler;

  // Split-KV parts of a tile.
  [[nodiscard]] int parts() const { return scheduler.cluster_size(); }
};

// By dtype of the inputs. bf16x3: float32, each element as high + low, both bfloat16.
void sm90_forward_bf16(const FlashForward& call);
void sm90_forward_fp16(const FlashForward& call);
void sm90_forward_bf16x3(const FlashForward& call);

// The number of clusters of 2^log2_parts blocks that are resident at once. log2_parts: 1 or more.
[[nodiscard]] int sm90_forward_clusters(int log2_parts);

}  // namespace paceline
