#pragma once
// How Hopper's forward pass goes over the tiles, and its workspace.

#include <cstddef>

#include "cuda/attention/flash.h"
#include "cuda/attention/tile_order.h"

namespace paceline {

// A tile has so many rows of queries for each consumer warpgroup: as many as there are registers
// for, unless fewer keep more multiprocessors busy.
constexpr int most_warpgroups(std::int64_t head_dim) { return head_dim <= 64 ? 3 : 2; }
// Of a tile: as many as spill no register; with a causal mask, not more than that few are hidden.
constexpr int forward_keys(std::int64_t head_dim, bool causal) {
  return head_dim == 128 && !causal ? 176 : 128;
}

// Of parts of the keys; null where there is one part.
struct ForwardSpace {
  float* o = nullptr;          // [parts, B H, T, d]
  float* logsumexp = nullptr;  // [parts, B H, T]
};

struct ForwardPlan {
  explicit ForwardPlan(const FlashShape& shape);

  [[nodiscard]] bool divides() const { return order.parts(0) > 1; }
  [[nodiscard]] std::size_t bytes() const;
  [[nodiscard]] ForwardSpace at(void* workspace) const;

  int warpgroups = 1;
  TileOrder order;       // of tiles of queries, over tiles of keys
  std::size_t rows = 0;  // B H T
  std::size_t head_dim = 0;
};

// O and the logsumexp from those of the parts.
void sm90_forward_merge(const FlashForward& call, const ForwardPlan& plan);

}  // namespace paceline
