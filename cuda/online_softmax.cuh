#pragma once
// The maximum of a row and the sum of exp(x - maximum) in one read of it (Milakov and Gimelshein,
// arXiv:1805.02867, algorithm 3), in powers of two: exp(x) = 2^(x log2e).

#include "cuda/exponential.cuh"
#include "cuda/reduce.cuh"
#include "cuda/vector.cuh"

namespace paceline {

struct MaxAndSum {
  float highest = -INFINITY;  // factor times the maximum, rounded
  float sum = 0;              // of 2^(factor x - highest)
};

// Of the packs load(0) ... load(packs - 1), times factor / log2e; the same on every thread of the
// block. Where all of them is -infinity the sum is NaN, as its softmax is.
template <class T, int N, class Load>
__device__ inline MaxAndSum max_and_sum(int packs, Load load, float factor) {
  constexpr int batch = N == 8 ? 2 : 4;  // packs in flight; the sum is rescaled once per batch
  const int team = static_cast<int>(blockDim.x);
  MaxAndSum mine;
  for (int first = static_cast<int>(threadIdx.x); first < packs; first += batch * team) {
    Pack<T, N> x[batch];
    float top = -INFINITY;
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * team < packs) x[k] = load(first + k * team);
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * team < packs) top = fmaxf(top, highest_of(x[k]));
    }
    top = fmaxf(mine.highest, top * factor);
    // While all is -infinity: 2^(-infinity - 0) = 0, where -infinity - -infinity would be NaN.
    const float shift = top == -INFINITY ? 0 : top;
    mine.sum *= fast_exp2(mine.highest - shift);
    mine.highest = top;
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * team < packs) {
#pragma unroll
        for (int j = 0; j < N; ++j) mine.sum += fast_exp2(fmaf(x[k][j], factor, -shift));
      }
    }
  }
  const float highest = block_reduce(mine.highest, Max{});
  return {highest, block_reduce(mine.sum * fast_exp2(mine.highest - highest), Sum{})};
}

// Of row [packs N].
template <class T, int N>
__device__ inline MaxAndSum max_and_sum(const T* row, int packs) {
  return max_and_sum<T, N>(
      packs, [&](int i) { return Pack<T, N>::load(row + i * N); }, log2e);
}

}  // namespace paceline
