#pragma once
// A grid with one thread for every pack of every row: blockIdx.x is the row; the packs of a row are
// spread evenly over blockIdx.y.

#include <algorithm>
#include <cstdint>

namespace paceline {

struct RowGrid {
  dim3 blocks;
  unsigned threads;
};

inline RowGrid row_grid(std::int64_t rows, std::int64_t packs) {
  constexpr std::int64_t most = 256;  // threads per block: 8 blocks fill a multiprocessor
  const std::int64_t pieces = (packs + most - 1) / most;
  const std::int64_t threads = (packs + pieces - 1) / pieces;
  return {dim3(static_cast<unsigned>(rows), static_cast<unsigned>(pieces)),
          static_cast<unsigned>((threads + 31) / 32 * 32)};
}

// The index of this thread's pack in its row; may be past the last pack.
__device__ inline int pack_of_row() {
  return static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
}

}  // namespace paceline
