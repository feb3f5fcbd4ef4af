#pragma once
// What a row of attention knows of the scores seen so far: their maximum, or a number close to it,
// and the sum of their exponentials. Milakov and Gimelshein, arXiv:1805.02867; FlashAttention-2,
// algorithm 1. Exponentials are powers of two: exp(scale (s - m)) = 2^(s factor - m factor), factor
// = scale log2(e), one multiply-add each.

#include "cuda/exponential.cuh"

namespace paceline {

struct OnlineRow {
  // The maximum, or what it was when it was last raised (online_rows.cuh), times the factor,
  // rounded once. Rounded anew where it is used, it would differ by its last bit between a
  // correction and the exponentials, which every tile adds to the logsumexp.
  float shift = -INFINITY;
  float sum = 0;  // this thread's part

  // Takes in the highest score of a tile. Returns what results so far are to be multiplied with, as
  // the sum has been.
  __device__ float update_max(float highest, float factor) {
    const float before = shift;
    shift = fmaxf(shift, highest * factor);
    const float correction = fast_exp2(before - base());
    sum *= correction;
    return correction;
  }
  // While all is masked: 2^(-infinity - 0) = 0, where -infinity - -infinity would be NaN.
  [[nodiscard]] __device__ float base() const { return shift == -INFINITY ? 0 : shift; }
  [[nodiscard]] __device__ float exponential(float score, float factor) const {
    return fast_exp2(fmaf(score, factor, -base()));
  }
  // The natural logarithm, from the sum of all threads that share the row.
  [[nodiscard]] __device__ float logsumexp(float total) const {
    return (shift + log2f(total)) * ln2;
  }
};

}  // namespace paceline
