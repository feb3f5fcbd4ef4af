#pragma once
// The maximum of a row and the sum of exp(x - maximum) in one read of it (Milakov and Gimelshein,
// arXiv:1805.02867, algorithm 3), in powers of two: exp(x) = 2^(x log2e).

#include "cuda/kernels/exponential.cuh"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/vector.cuh"

namespace paceline {

struct MaxAndSum {
  float highest = -INFINITY;  // factor times the maximum, rounded
  float sum = 0;              // sum of 2^(factor x - highest)
};

// For the row [packs N] times factor / log2e, after edit(pack, i) of each pack; the result is the
// same on every thread of the block. If the whole row is -infinity the sum is NaN, as is its
// softmax.
template <class T, int N, class Edit>
__device__ inline MaxAndSum max_and_sum(const T* row, int packs, float factor, Edit edit) {
  constexpr int batch = N == 8 ? 2 : 4;  // packs in flight; the sum is rescaled once per batch
  const int team = static_cast<int>(blockDim.x);
  MaxAndSum mine;
  for (int first = static_cast<int>(threadIdx.x); first < packs; first += batch * team) {
    Pack<T, N> x[batch];
    float top = -INFINITY;
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * team < packs) x[k] = Pack<T, N>::load(row + (first + k * team) * N);
    }
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      if (first + k * team < packs) {
        edit(x[k], first + k * team);
        top = fmaxf(top, highest_of(x[k]));
      }
    }
    top = fmaxf(mine.highest, top * factor);
    // While all elements are -infinity, shift by 0: -infinity - -infinity would be NaN.
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

template <class T, int N>
__device__ inline MaxAndSum max_and_sum(const T* row, int packs) {
  return max_and_sum<T, N>(row, packs, log2e, [](Pack<T, N>&, int) {});
}

// log(sum of exp(x)), rounded. No FMA contraction with the caller's subtraction, so that the value
// does not depend on the kernel.
__device__ inline float logsumexp_of(const MaxAndSum& m) {
  return __fmul_rn(ln2, m.highest + log2f(m.sum));
}

}  // namespace paceline
