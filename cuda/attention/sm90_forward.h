#pragma once
// How Hopper's forward pass goes over the tiles.

#include "cuda/attention/flash.h"
#include "cuda/attention/tile_order.h"
#include "cuda/attention/turns.h"

namespace paceline {

// A tile has 64 rows of queries for each consumer warpgroup. More take less time for each, but four
// have registers for few keys only: they serve where their tiles fill the multiprocessors better.
constexpr int most_warpgroups(std::int64_t head_dim) { return head_dim <= 64 ? 4 : 2; }
inline constexpr int most_near_warpgroups = 2;

// Keys of a tile: as many as spill no register, where no room is needed for putting parts together;
// with a causal mask not more than that few are hidden.
inline constexpr int least_forward_keys = 64;  // four warpgroups, whose tiles are not divided
inline constexpr int forward_keys = 128;
inline constexpr int most_forward_keys = 176;  // head dimension 128
// Of two parts as many as shared memory has room for; rows of 80 columns take 128 there.
constexpr int near_forward_keys(std::int64_t head_dim) { return head_dim <= 64 ? 128 : 64; }

// Into how many parts the keys of a tile may be divided: clusters of eight blocks leave more
// multiprocessors idle and take twice as long to put parts together.
inline constexpr int most_log2_parts = 2;

struct ForwardPlan {
  explicit ForwardPlan(const FlashShape& shape);

  int warpgroups = 1;
  int keys = forward_keys;
  // Two blocks have neighbouring tiles of queries and share their tiles of keys: `order` is of
  // pairs.
  bool paired = false;
  TileOrder order;  // of tiles of queries, over tiles of keys
  Turns turns;

  // Of the keys that a tile sees.
  [[nodiscard]] int parts() const { return paired ? 1 : turns.cluster(); }
};

// For inputs of these types; near: float32, each element as high + low, both bfloat16.
void sm90_forward_bf16(const FlashForward& call);
void sm90_forward_fp16(const FlashForward& call);
void sm90_forward_near(const FlashForward& call);

// Clusters of 2^log2_parts blocks, 2 or more, that run at the same time.
[[nodiscard]] int sm90_forward_clusters(int log2_parts);

}  // namespace paceline
