#pragma once
// Products of float32 tiles in shared memory in float32 arithmetic: FMAs, no tensor cores. A block
// has 16 x 16 threads. Thread (y, x) computes 4 x N sums of a product [64, 16 N]: rows y + 16 i,
// and columns in groups of `width`, which it loads at once.

#include <numeric>

#include "cuda/ampere/tile.cuh"

namespace paceline {

inline constexpr int exact_threads = 256;
inline constexpr int exact_rows = 64;  // of each tile

template <int columns>
using ExactTile = SharedTile<Unrounded, exact_rows, columns>;

// [64, columns]
template <int columns, int max_width = 4>
struct ThreadSums {
  static constexpr int N = columns / 16;
  static constexpr int width = std::gcd(N, max_width);
  float x[4][N];

  __device__ void clear() {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) x[i][j] = 0;
    }
  }
  static __device__ int row(int i) { return static_cast<int>(threadIdx.x / 16) + 16 * i; }
  static __device__ int column(int j) {
    return (static_cast<int>(threadIdx.x % 16) + j / width * 16) * width + j % width;
  }

  // Calls f(x, row, column) for every sum.
  template <class F>
  __device__ void for_each(F f) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) f(x[i][j], row(i), column(j));
    }
  }

  // Writes the sums to a tile of the same size.
  __device__ void put(const SharedTile<Unrounded, exact_rows, columns>& tile) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < N; ++j) store_shared(tile.element(row(i), column(j)), x[i][j]);
    }
  }
  // Stores row i times factor[i] to the head's rows from `first` on, as far as it has them.
  __device__ void store(const HeadRows<float>& to, int first, const float (&factor)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (first + row(i) >= to.rows) continue;
#pragma unroll
      for (int j = 0; j < N; ++j) to.row(0, first + row(i))[column(j)] = x[i][j] * factor[i];
    }
  }
};

// S or dP: [64, 64], with columns in groups of 1.
using ScoreSums = ThreadSums<exact_rows, 1>;

// sums += A B^T.  [64, 64], [64, d], [64, d]
template <int d>
__device__ inline void add_row_products(ScoreSums& sums, const ExactTile<d>& a,
                                        const ExactTile<d>& b) {
#pragma unroll 4
  for (int k = 0; k < d; k += 4) {
    float4 rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_shared(rows[i], a.element(sums.row(i), k));
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float4 column;
      load_shared(column, b.element(sums.column(j), k));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& sum = sums.x[i][j];
        sum = fmaf(rows[i].x, column.x, sum);
        sum = fmaf(rows[i].y, column.y, sum);
        sum = fmaf(rows[i].z, column.z, sum);
        sum = fmaf(rows[i].w, column.w, sum);
      }
    }
  }
}

// sums += A B.  [64, d], [64, 64], [64, d]
template <int d>
__device__ inline void add_products(ThreadSums<d>& sums, const ExactTile<exact_rows>& a,
                                    const ExactTile<d>& b) {
  using Sums = ThreadSums<d>;
#pragma unroll 2
  for (int k = 0; k < exact_rows; k += 4) {
    float4 rows[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) load_shared(rows[i], a.element(sums.row(i), k));
#pragma unroll
    for (int l = 0; l < 4; ++l) {
#pragma unroll
      for (int j = 0; j < Sums::N; j += Sums::width) {
        float columns[Sums::width];
        load_shared(columns, b.element(k + l, sums.column(j)));
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const float term = l == 0   ? rows[i].x
                             : l == 1 ? rows[i].y
                             : l == 2 ? rows[i].z
                                      : rows[i].w;
#pragma unroll
          for (int w = 0; w < Sums::width; ++w) {
            sums.x[i][j + w] = fmaf(term, columns[w], sums.x[i][j + w]);
          }
        }
      }
    }
  }
}

// Reduces over the 16 threads that share rows.
template <class Op>
__device__ inline float row_reduce(float x, Op op) {
#pragma unroll
  for (int offset = 1; offset < 16; offset *= 2) {
    x = op(x, __shfl_xor_sync(0xffffffffU, x, offset));
  }
  return x;
}

}  // namespace paceline
