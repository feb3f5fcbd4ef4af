#pragma once
// What the kernels of Hopper's backward pass share: their tiles and their workspace.

#include <cstddef>

#include "cuda/attention/flash.h"

namespace paceline {

// A block has so many keys, 64 for each of two warpgroups, and goes over tiles of queries. dQ of a
// tile of 128 queries is split between the warpgroups by rows, that of 64 by columns.
template <int HeadDim>
struct BackwardTile {
  static constexpr int head_dim = HeadDim;
  static constexpr int keys = 128;
  static constexpr int queries = HeadDim > 64 ? 64 : 128;
  static constexpr bool splits_columns = queries == 64;
  static constexpr int dq_cols = splits_columns ? 64 : HeadDim;  // of a warpgroup
  static constexpr int dq_floats = 64 * dq_cols;
};

// Rows of queries are padded to whole tiles.
struct BackwardSpace {
  float* dq;         // [B H, tiles, 2, dq_floats]: sums, in the order of accumulators' elements
  float* logsumexp;  // [B H, rows]: times log2(e); infinite beyond T, so that no key has a share
  float* delta;      // [B H, rows]: rowsum(dO * O)
  int* turns;        // [B H, tiles, 2]: the tile of keys that is to add to dq next
  int rows;
};

template <class Tile>
struct BackwardLayout {
  explicit BackwardLayout(const FlashShape& shape)
      : heads(static_cast<std::size_t>(shape.batch * shape.heads)),
        tiles(static_cast<std::size_t>((shape.context + Tile::queries - 1) / Tile::queries)) {}

  [[nodiscard]] std::size_t rows() const { return tiles * Tile::queries; }
  [[nodiscard]] std::size_t dq_floats() const { return heads * tiles * 2 * Tile::dq_floats; }
  // What must be 0 at first: dq and turns, which begin the workspace.
  [[nodiscard]] std::size_t zeroed_bytes() const { return (dq_floats() + turns()) * sizeof(float); }
  [[nodiscard]] std::size_t bytes() const {
    return zeroed_bytes() + 2 * heads * rows() * sizeof(float);
  }
  [[nodiscard]] BackwardSpace at(void* workspace) const {
    auto* const dq = static_cast<float*>(workspace);
    float* const logsumexp = dq + dq_floats() + turns();
    return {.dq = dq,
            .logsumexp = logsumexp,
            .delta = logsumexp + heads * rows(),
            .turns = reinterpret_cast<int*>(dq + dq_floats()),
            .rows = static_cast<int>(rows())};
  }

  // Padded, so that what follows stays aligned.
  [[nodiscard]] std::size_t turns() const { return (heads * tiles * 2 + 63) / 64 * 64; }

  std::size_t heads;
  std::size_t tiles;
};

// delta and logsumexp.
void sm90_backward_prepare(const FlashBackward& call, const BackwardSpace& space);
// dQ from its sums.
void sm90_backward_finish(const FlashBackward& call, const BackwardSpace& space);

}  // namespace paceline
