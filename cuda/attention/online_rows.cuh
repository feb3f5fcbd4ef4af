#pragma once
// OnlineRow for the rows of a warpgroup's accumulator.

#include "cuda/attention/online_row.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/reduce.cuh"

namespace paceline {

// Of rows r and r + 8 of a warpgroup's accumulator; four neighbouring lanes share them.
template <class T>
struct RowPair {
  T of[2];
};

// What results so far are to be multiplied with; not needed where it is 1 for all rows of the warp.
struct Correction {
  bool needed = false;
  RowPair<float> factor = {{1, 1}};
};

class OnlineRows {
 public:
  // Takes in scores s, which become their exponentials. factor: scale log2(e), above 0.
  template <int N>
  __device__ Correction take(hopper::Accumulator<N>& s, float factor) {
    using Scores = hopper::Accumulator<N>;
    float highest[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};
#pragma unroll
    for (int i = 0; i < Scores::elements; ++i) {
      float& h = highest[Scores::half(i)][i % 2];
      h = fmaxf(h, s.at[i]);
    }
    const Correction correction =
        rise({fmaxf(highest[0][0], highest[0][1]), fmaxf(highest[1][0], highest[1][1])}, factor);
    float sum[2][2] = {};
#pragma unroll
    for (int i = 0; i < Scores::elements; ++i) {
      const int h = Scores::half(i);
      s.at[i] = rows_[h].exponential(s.at[i], factor);
      sum[h][i % 2] += s.at[i];
    }
#pragma unroll
    for (int h = 0; h < 2; ++h) rows_[h].sum += sum[h][0] + sum[h][1];
    return correction;
  }

  // After the last scores: what the results are to be multiplied with, and the logsumexp. A row
  // that has seen none has results 0 and a logsumexp of -infinity.
  __device__ RowPair<float> finish(RowPair<float>& logsumexp) const {
    RowPair<float> inverse;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = quad_reduce(rows_[h].sum, Sum{});
      logsumexp.of[h] = rows_[h].logsumexp(sum);
      inverse.of[h] = sum > 0 ? fast_reciprocal(sum) : 0;
    }
    return inverse;
  }

 private:
  // What is subtracted from a row's scores need not be their maximum, only so close to it that
  // nothing overflows: it stays until a score would have an exponential above 2^8 (float16 holds
  // 2^15), which is rare after the first tiles. That is FlashAttention-4's idea.
  __device__ Correction rise(RowPair<float> highest, float factor) {
    constexpr float slack = 8;
    const auto too_high = [&](int h) { return highest.of[h] * factor > rows_[h].shift + slack; };
    Correction correction;
    correction.needed = __any_sync(0xffffffffU, too_high(0) || too_high(1));
    if (correction.needed) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        highest.of[h] = quad_reduce(highest.of[h], Max{});
        if (too_high(h)) correction.factor.of[h] = rows_[h].rise(highest.of[h], factor);
      }
    }
    return correction;
  }

  OnlineRow rows_[2];
};

template <int N>
__device__ void scale_rows(hopper::Accumulator<N>& x, const RowPair<float>& factor) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) x.at[i] *= factor.of[hopper::Accumulator<N>::half(i)];
}

}  // namespace paceline
