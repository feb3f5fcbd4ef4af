#pragma once
// Online softmax of the rows of a warpgroup's accumulator.

#include "cuda/attention/online_row.cuh"
#include "cuda/hopper/barrier.cuh"
#include "cuda/hopper/wgmma.cuh"
#include "cuda/kernels/reduce.cuh"

namespace paceline {

// A value for rows r and r + 8 of a warpgroup's accumulator, which four neighbouring lanes share.
template <class T>
struct RowPair {
  T of[2];
};

class OnlineRows {
 public:
  // Adds a tile: raises the maximum and replaces the scores s by their exponentials. factor: scale
  // log2(e), above 0. Returns the factor by which to rescale O.
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

  // The same without raising the maximum, if possible. The subtracted value need not be the
  // maximum, only close enough to it that nothing overflows (FlashAttention-4); the maximum of the
  // earlier tiles mostly is. Returns false, to the whole warpgroup, if the exponentials of a thread
  // sum to `limit` or more, or if a row has not seen a score yet. Then the tile has not been added
  // and s is lost. barrier: a named barrier of this warpgroup alone.
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

  // After the last tile: returns 1 / l and sets the logsumexp. A row that has seen no score gets 0
  // and -infinity.
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
