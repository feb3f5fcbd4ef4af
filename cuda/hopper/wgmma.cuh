#pragma once
// Asynchronous matrix products of a warpgroup (wgmma), with operands in shared memory or registers
// and sums in registers. mma_*() issues a product, commit() closes a group of products, wait()
// waits for groups. In between nothing may access the accumulators or the operands in registers.
// begin() and wait() take them as arguments, so that the compiler moves no access across.

#include <cstdint>

#include "cuda/hopper/shared_tile.cuh"
#include "cuda/hopper/warpgroup.cuh"
#include "cuda/kernels/packed.cuh"
#include "generated/wgmma_instructions.cuh"

namespace paceline::hopper {

// This thread's part of a warpgroup's [64, N] result: in rows row() and row() + 8, one pair of
// columns of every eight. Four lanes share a row.
template <int N>
struct Accumulator {
  static constexpr int cols = N;
  static constexpr int elements = N / 2;

  float at[elements];

  // The row of element i: 0 for row(), 1 for row() + 8.
  static constexpr __host__ __device__ int half(int i) { return i / 2 % 2; }
  static constexpr __host__ __device__ int row_of_thread(int thread) {
    return thread / 32 * 16 + thread % 32 / 4;
  }
  static constexpr __host__ __device__ int col_of_thread(int thread, int i) {
    return i / 4 * 8 + thread % 4 * 2 + i % 2;
  }
  static __device__ int row() { return row_of_thread(threadIdx.x % warpgroup_threads); }
  static __device__ int col(int i) { return col_of_thread(threadIdx.x % 32, i); }
};

// This thread's part of a [64, K] operand in registers, two elements per register.
template <int K>
struct Operand {
  std::uint32_t at[K / 16][4];
};

// Rounds a result to an operand of the next product. Each thread already holds its elements.
template <class T, int N>
__device__ void round_to_operand(Operand<N>& to, const Accumulator<N>& from) {
#pragma unroll
  for (int k = 0; k < N / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to.at[k][i] = packed<T>(from.at[8 * k + 2 * i], from.at[8 * k + 2 * i + 1]);
    }
  }
}

template <int N>
__device__ void clear(Accumulator<N>& x) {
#pragma unroll
  for (float& value : x.at) value = 0;
}
template <int N>
__device__ void add(Accumulator<N>& to, const Accumulator<N>& x) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) to.at[i] += x.at[i];
}

// A barrier for the compiler: it may assume nothing about these registers afterwards.
__device__ inline void pin(int& x) { asm volatile("" : "+r"(x)); }
template <int N>
__device__ void pin(Accumulator<N>& x) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) asm volatile("" : "+f"(x.at[i])::"memory");
}
template <int K>
__device__ void pin(Operand<K>& x) {
#pragma unroll
  for (int i = 0; i < K / 4; ++i) asm volatile("" : "+r"(x.at[i / 4][i % 4])::"memory");
}

// Precedes products that read or write these registers (wgmma.fence).
template <class... Registers>
__device__ void begin(Registers&... registers) {
  (pin(registers), ...);
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until all groups but the last `Pending` are done. `registers`: what those groups read or
// write.
template <int Pending, class... Registers>
__device__ void wait(Registers&... registers) {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
  (pin(registers), ...);
}

// d (+)= a b^T, a [64, K] from row a_row on, b [N, K].
template <class T, int N, int ARows, int K>
__device__ void mma_abt(Accumulator<N>& d, const SharedTile<T, ARows, K>& a, int a_row,
                        const SharedTile<T, N, K>& b, bool add = false) {
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    WgmmaInstruction<T, N>::template shared<false, false>(d.at, a.along_cols(a_row, k).bits(),
                                                          b.along_cols(0, k).bits(), add || k > 0);
  }
}

// d (+)= a b, a [64, K], b [K, N].
template <class T, int N, int K>
__device__ void mma_ab(Accumulator<N>& d, const Operand<K>& a, const SharedTile<T, K, N>& b,
                       bool add) {
#pragma unroll
  for (int k = 0; k < K / 16; ++k) {
    WgmmaInstruction<T, N>::template registers<true>(d.at, a.at[k], b.along_rows(16 * k, 0).bits(),
                                                     add || k > 0);
  }
}

// d = a b, a [64, K] from row a_row on, b [K, N] from the panel's first column on.
template <class T, int N, int ARows, int K, int BCols>
__device__ void mma_ab(Accumulator<N>& d, const SharedTile<T, ARows, K>& a, int a_row,
                       const SharedTile<T, K, BCols>& b, int b_panel) {
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    WgmmaInstruction<T, N>::template shared<false, true>(d.at, a.along_cols(a_row, k).bits(),
                                                         b.along_rows(k, b_panel).bits(), k > 0);
  }
}

// d (+)= a^T b, a [K, 64] from the panel's first column on, b [K, N].
template <class T, int N, int K, int ACols>
__device__ void mma_atb(Accumulator<N>& d, const SharedTile<T, K, ACols>& a, int a_panel,
                        const SharedTile<T, K, N>& b, bool add) {
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    WgmmaInstruction<T, N>::template shared<true, true>(d.at, a.along_rows(k, a_panel).bits(),
                                                        b.along_rows(k, 0).bits(), add || k > 0);
  }
}

// Stores an operand transposed: element (i, j) of a warpgroup's [64, K] becomes tile(j, first_col +
// i). stmatrix, four 8 x 8 matrices at a time.
template <class T, int K, int Cols>
__device__ void store_transposed(SharedTile<T, K, Cols>& tile, int first_col, const Operand<K>& x) {
  const int matrix = lane() / 8;
  const int col = first_col + 16 * warp_in_warpgroup() + matrix % 2 * 8;
  const std::uint32_t first = shared_address(&tile.at(matrix / 2 * 8 + lane() % 8, col));
#pragma unroll
  for (int k = 0; k < K / 16; ++k) {
    // The swizzle repeats every eight rows.
    const std::uint32_t to = first + 16 * k * SharedTile<T, K, Cols>::row_bytes;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                 "r"(x.at[k][0]), "r"(x.at[k][1]), "r"(x.at[k][2]), "r"(x.at[k][3])
                 : "memory");
  }
}

}  // namespace paceline::hopper
