#pragma once
// Tiles and workspace of the kernels of Hopper's backward pass.

#include <cstddef>

#include "cuda/attention/flash.h"
#include "cuda/attention/hopper/sm90.h"
#include "cuda/attention/schedule/stream_k_plan.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

// A block has a tile of keys, 64 for each of two warpgroups, and loops over tiles of queries. dQ of
// a tile of 128 queries is divided between the warpgroups by rows, dQ of 64 queries by columns.
template <int HeadDim>
struct BackwardTile {
  static constexpr int head_dim = HeadDim;
  static constexpr int keys = 128;
  static constexpr int queries = HeadDim > 64 ? 64 : 128;
  static constexpr bool splits_columns = queries == 64;
  static constexpr int dq_cols = splits_columns ? 64 : HeadDim;  // per warpgroup
  static constexpr int dq_floats = 64 * dq_cols;
  static constexpr int panels =
      splits_columns ? 2 : 1;  // of dq_cols columns, the last of last_cols
  static constexpr int last_cols = HeadDim - (panels - 1) * dq_cols;
};

// Sums are stored in the order of the accumulators' elements: [tiles, 2 warpgroups, floats of a
// warpgroup's part]. dQ has all tiles of queries, by heads; dK and dV have the stream-K tiles of
// keys in their order. Rows of queries are padded to whole tiles.
struct BackwardWorkspace {
  float* dq;           // dq_floats for each warpgroup
  float* dk;           // 64 head_dim for each warpgroup
  float* dv;           // as dk
  int* dq_semaphores;  // [B H, tiles, 2]: the tile of keys that is to be added to dq next
  int* unit_counter;   // units of work taken so far, except the first unit of each block
  float* logsumexp;    // [B H, rows]: times log2(e); infinite beyond T, which makes P zero there
  float* delta;        // [B H, rows]: D = rowsum(dO * O)
  int rows;
};

template <class Tile>
struct BackwardPlan {
  explicit BackwardPlan(const FlashShape& shape)
      : heads(static_cast<std::size_t>(shape.batch * shape.heads)),
        query_tiles(static_cast<std::size_t>((shape.context + Tile::queries - 1) / Tile::queries)) {
    constexpr int bytes_of_query = Tile::head_dim * 8;  // Q and dO in 16 bits, dQ in 32
    const TileOrder::Shape tiles{.context = static_cast<int>(shape.context),
                                 .heads = static_cast<int>(shape.heads),
                                 .batch = static_cast<int>(shape.batch),
                                 .outer = Tile::keys,
                                 .inner = Tile::queries,
                                 .causal = shape.causal,
                                 .reach = static_cast<int>(shape.context),
                                 .section = heads_per_section(shape, bytes_of_query)};
    // Measured: see NOTES.md.
    constexpr StreamKCosts costs{.fixup = 0.3, .fixup_per_part = 0.015};
    const TileOrder order(tiles);
    scheduler = shape.deterministic
                    ? StreamKScheduler(order)
                    : plan_stream_k(order, costs, multiprocessors(),
                                    l2_section_bytes / (bytes_of_query * Tile::queries));
  }

  [[nodiscard]] std::size_t rows() const { return query_tiles * Tile::queries; }
  [[nodiscard]] std::size_t dq_floats() const { return heads * query_tiles * 2 * Tile::dq_floats; }
  [[nodiscard]] std::size_t dk_floats() const {
    return static_cast<std::size_t>(scheduler.stream_k_tiles()) * Tile::keys * Tile::head_dim;
  }
  [[nodiscard]] std::size_t semaphores() const { return heads * query_tiles * 2; }
  // The part of the workspace that must start at 0, which comes first: sums, semaphores and the
  // unit counter. Padded, to keep the rest aligned.
  [[nodiscard]] std::size_t zeroed_bytes() const {
    const std::size_t numbers = dq_floats() + 2 * dk_floats() + semaphores() + 1;
    return (numbers + 63) / 64 * 64 * sizeof(float);
  }
  [[nodiscard]] std::size_t bytes() const {
    return zeroed_bytes() + 2 * heads * rows() * sizeof(float);
  }
  [[nodiscard]] BackwardWorkspace at(void* workspace) const {
    auto* const dq = static_cast<float*>(workspace);
    float* const dk = dq + dq_floats();
    float* const dv = dk + dk_floats();
    auto* const dq_semaphores = reinterpret_cast<int*>(dv + dk_floats());
    float* const logsumexp = dq + zeroed_bytes() / sizeof(float);
    return {.dq = dq,
            .dk = dk,
            .dv = dv,
            .dq_semaphores = dq_semaphores,
            .unit_counter = dq_semaphores + semaphores(),
            .logsumexp = logsumexp,
            .delta = logsumexp + heads * rows(),
            .rows = static_cast<int>(rows())};
  }

  std::size_t heads;
  std::size_t query_tiles;
  StreamKScheduler scheduler;  // outer tiles: keys; inner tiles: queries
};

// Writes delta and logsumexp, and zeros the first `zeroed_bytes` of the workspace.
void sm90_backward_prepare(const FlashBackward& call, const BackwardWorkspace& workspace,
                           std::size_t zeroed_bytes);
// Rounds the gradients that are summed in the workspace to the inputs' dtype.
void sm90_backward_finish(const FlashBackward& call, const BackwardWorkspace& workspace,
                          const StreamKScheduler& scheduler);

}  // namespace paceline
