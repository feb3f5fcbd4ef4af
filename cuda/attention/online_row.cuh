#pragma once
// Online softmax of one row: the maximum of the scores seen so far, or a number close to it, and
// the sum of their exponentials (Milakov and Gimelshein, arXiv:1805.02867; FlashAttention-2,
// algorithm 1). Exponentials are powers of two with one multiply-add each: exp(scale (s - m)) =
// 2^(s factor - m factor), factor = scale log2(e).

#include "cuda/kernels/exponential.cuh"

namespace paceline {

struct OnlineRow {
  // The maximum times the factor, as of its last update (online_rows.cuh), rounded once. If it were
  // rounded at each use, corrections and exponentials could use values that differ in the last bit,
  // an error that every tile would add to the logsumexp.
  float shift = -INFINITY;
  float sum = 0;  // of this thread's scores

  // Raises the maximum to that of a tile and rescales the sum. Returns the factor by which to
  // rescale O.
  __device__ float update_max(float tile_max, float factor) {
    const float before = shift;
    shift = fmaxf(shift, tile_max * factor);
    const float correction = fast_exp2(before - base());
    sum *= correction;
    return correction;
  }
  // 0 while all scores are masked: 2^(-infinity - 0) = 0, but -infinity - -infinity is NaN.
  [[nodiscard]] __device__ float base() const { return shift == -INFINITY ? 0 : shift; }
  [[nodiscard]] __device__ float exponential(float score, float factor) const {
    return fast_exp2(fmaf(score, factor, -base()));
  }
  // total: the sum over all threads that share the row.
  [[nodiscard]] __device__ float logsumexp(float total) const {
    return (shift + log2f(total)) * ln2;
  }
};

}  // namespace paceline
