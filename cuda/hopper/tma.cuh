#pragma once
// TMA in kernels: one thread starts the copy of a whole tile.

#include <cuda.h>

#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/shared_tile.cuh"

namespace paceline::hopper {

// Loads a tile from a tensor [cols, rows, heads, batches] (tensor_map.h), from `row` and `col` on.
// Rows and columns outside the tensor become zeros. `full` counts SharedTile::bytes.
template <class T, int Rows, int Cols>
__device__ void load(SharedTile<T, Rows, Cols>& tile, const CUtensorMap& map, Barrier& full,
                     int row, int head, int batch, int col = 0) {
  using Tile = SharedTile<T, Rows, Cols>;
#pragma unroll
  for (int p = 0; p < Tile::panels; ++p) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(tile.panel(p))),
        "l"(&map), "r"(shared_address(&full)), "r"(col + p * Tile::panel_cols), "r"(row), "r"(head),
        "r"(batch)
        : "memory");
  }
}

// TMA multicast: loads the same rows into every block of a cluster of `blocks` blocks, from the
// tile's row `to_row` (a multiple of 8) on. The barrier of each block counts the bytes that arrive
// in that block. The map's box sets the number of rows.
template <class T, int Rows, int Cols>
__device__ void load_in_cluster(SharedTile<T, Rows, Cols>& tile, int to_row, int blocks,
                                const CUtensorMap& map, Barrier& full, int row, int head,
                                int batch) {
  using Tile = SharedTile<T, Rows, Cols>;
  const auto every_block = static_cast<std::uint16_t>((1U << blocks) - 1);
#pragma unroll
  for (int p = 0; p < Tile::panels; ++p) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(
            shared_address(tile.panel(p) + to_row * Tile::row_bytes)),
        "l"(&map), "r"(shared_address(&full)), "r"(p * Tile::panel_cols), "r"(row), "r"(head),
        "r"(batch), "h"(every_block)
        : "memory");
  }
}

// Loads contiguous floats. Both addresses and the size must be multiples of 16 bytes.
__device__ inline void load(float* to, const float* from, Barrier& full, int floats) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(floats * 4), "r"(shared_address(&full))
      : "memory");
}

// Prefetches a map from constant memory, so that its first use does not wait.
__device__ inline void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

}  // namespace paceline::hopper
