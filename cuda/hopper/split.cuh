#pragma once
// bf16x3: float32 split as high + low, both bfloat16. Tiles in shared memory, operands in
// registers, and products high high + high low + low high, with a relative error of about 2^-16.

#include "cuda/hopper/tma.cuh"
#include "cuda/hopper/wgmma.cuh"

namespace paceline::hopper {

template <int Rows, int Cols>
struct SplitTile {
  using Part = SharedTile<__nv_bfloat16, Rows, Cols>;
  static constexpr int bytes = 2 * Part::bytes;

  Part high, low;
};

template <int K>
struct SplitOperand {
  Operand<K> high, low;
};

// Loads both parts as those of a SharedTile. In global memory the low parts of a row follow its
// high parts, so the spare columns of a partial high panel receive low parts.
template <int Rows, int Cols>
__device__ void load(SplitTile<Rows, Cols>& tile, const CUtensorMap& map, Barrier& full, int row,
                     int head, int batch) {
  load(tile.high, map, full, row, head, batch);
  load(tile.low, map, full, row, head, batch, Cols);
}

template <class Float, int N>
__device__ void round_to_operand(SplitOperand<N>& to, const Accumulator<N>& from) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitPair pair = split(from.at[8 * k + 2 * i], from.at[8 * k + 2 * i + 1]);
      to.high.at[k][i] = pair.high;
      to.low.at[k][i] = pair.low;
    }
  }
}

template <int K>
__device__ void pin(SplitOperand<K>& x) {
  pin(x.high);
  pin(x.low);
}

// d = a b^T, the smallest terms first. a [64, K] from row a_row on, b [N, K].
template <int N, int ARows, int K>
__device__ void mma_abt(Accumulator<N>& d, const SplitTile<ARows, K>& a, int a_row,
                        const SplitTile<N, K>& b) {
  mma_abt(d, a.low, a_row, b.high);
  mma_abt(d, a.high, a_row, b.low, true);
  mma_abt(d, a.high, a_row, b.high, true);
}

// d (+)= a b, a [64, K], b [K, N].
template <int N, int K>
__device__ void mma_ab(Accumulator<N>& d, const SplitOperand<K>& a, const SplitTile<K, N>& b,
                       bool add) {
  mma_ab(d, a.low, b.high, add);
  mma_ab(d, a.high, b.low, true);
  mma_ab(d, a.high, b.high, true);
}

}  // namespace paceline::hopper
