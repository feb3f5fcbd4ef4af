#pragma once
// What the rows of an attention tile know of the scores seen so far: their maximum and their sum of
// exponentials. Milakov and Gimelshein, arXiv:1805.02867; FlashAttention-2, algorithm 1.

#include "cuda/exponential.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/reduce.cuh"

namespace paceline {

// Of rows r and r + 8 of a warpgroup's accumulator; four neighbouring lanes share them.
template <class T>
struct RowPair {
  T of[2];
};

class OnlineRows {
 public:
  // Takes in scores s: they become 2^(scale s - scale maximum), rows' sums follow. Returns what the
  // results so far are to be multiplied with. scale > 0.
  template <int N>
  __device__ RowPair<float> take(hopper::Accumulator<N>& s, float scale) {
    using Scores = hopper::Accumulator<N>;
    float top[2][2] = {{maximum_.of[0], -INFINITY}, {maximum_.of[1], -INFINITY}};
#pragma unroll
    for (int i = 0; i < Scores::elements; ++i) {
      float& t = top[Scores::half(i)][i % 2];
      t = fmaxf(t, s.at[i]);
    }
    RowPair<float> correction;
    float base[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float now = quad_reduce(fmaxf(top[h][0], top[h][1]), Max{});
      base[h] = now == -INFINITY ? 0 : now * scale;  // a row without a key yet
      correction.of[h] = fast_exp2(maximum_.of[h] * scale - base[h]);
      maximum_.of[h] = now;
    }
    float sum[2][2] = {};
#pragma unroll
    for (int i = 0; i < Scores::elements; ++i) {
      const int h = Scores::half(i);
      s.at[i] = fast_exp2(s.at[i] * scale - base[h]);
      sum[h][i % 2] += s.at[i];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sum_.of[h] = sum_.of[h] * correction.of[h] + (sum[h][0] + sum[h][1]);
    }
    return correction;
  }

  // After the last scores: what the results are to be multiplied with; logsumexp becomes the
  // natural logarithm of the rows' sums of exponentials of scores (eq. 4).
  __device__ RowPair<float> finish(RowPair<float>& logsumexp, float scale) const {
    constexpr float ln2 = 0.6931471805599453F;
    RowPair<float> factor;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = quad_reduce(sum_.of[h], Sum{});
      logsumexp.of[h] = (maximum_.of[h] * scale + log2f(sum)) * ln2;
      factor.of[h] = 1 / sum;
    }
    return factor;
  }

 private:
  RowPair<float> maximum_{{-INFINITY, -INFINITY}};
  RowPair<float> sum_{{0, 0}};  // this lane's part
};

template <int N>
__device__ void scale_rows(hopper::Accumulator<N>& x, const RowPair<float>& factor) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) x.at[i] *= factor.of[hopper::Accumulator<N>::half(i)];
}

}  // namespace paceline
