#pragma once
// OnlineRow for the rows of a warpgroup's accumulator.

#include "cuda/attention/online_row.cuh"
#include "cuda/hopper/barrier.cuh"
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
  // Takes in scores s, which become their exponentials. factor: scale log2(e), above 0. Returns
  // what results so far are to be multiplied with.
  template <int N>
  __device__ RowPair<float> update(hopper::Accumulator<N>& s, float factor) {
    float highest[2][2] = {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}};
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      float& h = highest[hopper::Accumulator<N>::half(i)][i % 2];
      h = fmaxf(h, s.at[i]);
    }
    RowPair<float> correction;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float of_row = quad_reduce(fmaxf(highest[h][0], highest[h][1]), Max{});
      correction.of[h] = rows_[h].update_max(of_row, factor);
    }
    add(exponentials(s, factor));
    return correction;
  }

  // The same without their maximum, if that goes well. What is subtracted from scores need not be
  // the maximum, only so close to it that nothing overflows (FlashAttention-4), which that of the
  // tiles before mostly is. False, in all of the warpgroup, where a thread's exponentials add up to
  // the limit or a row has seen nothing yet: then s is used up, and nothing has been taken in.
  // barrier: a named one of the warpgroup's own.
  template <int N>
  __device__ bool update_without_max(hopper::Accumulator<N>& s, float factor, float limit,
                                     int barrier) {
    const RowPair<float> sums = exponentials(s, factor);
    const bool fits =
        fmaxf(sums.of[0], sums.of[1]) < limit && fminf(rows_[0].shift, rows_[1].shift) > -INFINITY;
    if (!hopper::named_barrier_all(barrier, hopper::warpgroup_threads, fits)) return false;
    add(sums);
    return true;
  }

  // After the last scores: what the results are to be multiplied with, and the logsumexp. A row
  // that has seen none has results 0 and a logsumexp of -infinity.
  __device__ RowPair<float> finalize(RowPair<float>& logsumexp) const {
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
  template <int N>
  __device__ RowPair<float> exponentials(hopper::Accumulator<N>& s, float factor) const {
    float sum[2][2] = {};
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const int h = hopper::Accumulator<N>::half(i);
      s.at[i] = rows_[h].exponential(s.at[i], factor);
      sum[h][i % 2] += s.at[i];
    }
    return {sum[0][0] + sum[0][1], sum[1][0] + sum[1][1]};
  }
  __device__ void add(const RowPair<float>& sums) {
#pragma unroll
    for (int h = 0; h < 2; ++h) rows_[h].sum += sums.of[h];
  }

  OnlineRow rows_[2];
};

template <int N>
__device__ void scale_rows(hopper::Accumulator<N>& x, const RowPair<float>& factor) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) x.at[i] *= factor.of[hopper::Accumulator<N>::half(i)];
}

}  // namespace paceline
