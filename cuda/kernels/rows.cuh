#pragma once
// Common code of kernels over the rows of a matrix. A team, the threads of a block with the same
// threadIdx.y, handles a row. The k-th pack of thread t is the row's pack t + k blockDim.x. The
// first Kept packs stay in registers; further packs of longer rows are read again when needed.

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>

#include "core/tensor.h"
#include "cuda/kernels/reduce.cuh"
#include "cuda/kernels/vector.cuh"

namespace paceline {

// Calls f.template operator()<A, B>() with the device types of two floating dtypes. bfloat16 and
// float16 are never combined, since no precision does that.
template <class F>
void dispatch_cuda_pair(Dtype a, Dtype b, F&& f) {
  dispatch_cuda(a, [&]<class A>() {
    dispatch_cuda(b, [&]<class B>() {
      if constexpr (std::same_as<A, B> || std::same_as<A, float> || std::same_as<B, float>) {
        f.template operator()<A, B>();
      } else {
        throw InternalError("bfloat16 and float16 in one operation");
      }
    });
  });
}

// Calls f.template operator()<N>() with N = pack_size<A, B> elements per access if rows of `cols`
// elements and the alignment of all pointers allow that, else with N = 1.
template <class A, class B, class F>
void dispatch_width(std::int64_t cols, std::initializer_list<const void*> pointers, F&& f) {
  constexpr int n = pack_size<A, B>;
  const bool aligned =
      std::all_of(pointers.begin(), pointers.end(), [](auto p) { return is_aligned(p, 16); });
  if (aligned && cols % n == 0) {
    f.template operator()<n>();
  } else {
    f.template operator()<1>();
  }
}

struct Teams {
  unsigned grid;  // blocks
  dim3 block;     // threads per team, teams per block
};

// Threads of a block that keeps a row of `packs` packs in registers, if `most` threads can.
inline int block_for(std::int64_t packs, int kept, int most) {
  const std::int64_t wanted = (packs + kept - 1) / kept;
  return static_cast<int>(std::min<std::int64_t>((wanted + 31) / 32 * 32, most));
}

// Teams that keep a row of `packs` packs in registers, if `most` threads can. Short rows get a part
// of a warp each, so that no lane is idle.
inline Teams teams_for(std::int64_t rows, std::int64_t packs, int kept, int most) {
  const auto wanted = static_cast<std::uint64_t>((packs + kept - 1) / kept);
  if (wanted > 32) {
    return {static_cast<unsigned>(rows), dim3(static_cast<unsigned>(block_for(packs, kept, most)))};
  }
  const auto lanes = static_cast<unsigned>(std::max<std::uint64_t>(std::bit_ceil(wanted), 8));
  const unsigned teams = 128 / lanes;
  return {static_cast<unsigned>((rows + teams - 1) / teams), dim3(lanes, teams)};
}

// This team's row. It may be past the last row: such a team has no packs, but must take part in
// reductions, which are over whole warps.
__device__ inline std::int64_t team_row() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// The result is the same on every thread of the team. Every thread of the block must call it.
template <class Op>
__device__ inline float team_reduce(float x, Op op) {
  if (blockDim.x > 32) return block_reduce(x, op);
  for (int offset = static_cast<int>(blockDim.x) / 2; offset > 0; offset /= 2) {
    x = op(x, __shfl_xor_sync(0xffffffffU, x, offset));
  }
  return x;
}

// Calls f(k, i) for this thread's packs that are kept in registers: pack i of the row, pack k of
// the thread. k is a constant after inlining, so that arrays indexed by it stay in registers.
template <int Kept, class F>
__device__ inline void for_each_kept(int packs, F f) {
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * static_cast<int>(blockDim.x);
    if (i < packs) f(k, i);
  }
}

// The same for all packs of this thread; packs that are not kept have k = Kept.
template <int Kept, class F>
__device__ inline void for_each_pack(int packs, F f) {
  for_each_kept<Kept>(packs, f);
  const int team = static_cast<int>(blockDim.x);
  for (int i = static_cast<int>(threadIdx.x) + Kept * team; i < packs; i += team) f(Kept, i);
}

// The thread's packs of a row; all loads are issued at once.
template <class T, int N, int Kept>
class RowPacks {
 public:
  __device__ RowPacks(const T* row, int packs) : row_(row) {
    for_each_kept<Kept>(packs, [&](int k, int i) { kept_[k] = Pack<T, N>::load(row + i * N); });
  }
  // k and i: as for_each_pack() passes them.
  __device__ Pack<T, N> get(int k, int i) const { return get(k, i, row_); }
  // Takes the row's address again: recomputing it takes fewer registers than keeping it.
  __device__ Pack<T, N> get(int k, int i, const T* row) const {
    return k < Kept ? kept_[k] : Pack<T, N>::load(row + i * N);
  }
  // Called between two passes over half types: keeps the compiler from holding the elements as
  // floats across the passes, in twice as many registers.
  __device__ void stay_narrow() {
    if constexpr (sizeof(Pack<T, N>) == 16) {
#pragma unroll
      for (Pack<T, N>& pack : kept_) {
        auto& words = reinterpret_cast<uint4&>(pack);
        asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
      }
    }
  }

 private:
  const T* row_;
  Pack<T, N> kept_[Kept];
};

// Calls f(row, packs) for rows blockIdx.x, blockIdx.x + gridDim.x, ... of x. The next row is loaded
// before f is called for the current one, so f must not write to later rows.
template <int N, int Kept, class X, class F>
__device__ inline void for_each_row_ahead(const X* x, std::int64_t rows, int cols, F f) {
  const auto request = [&](std::int64_t row) {
    return RowPacks<X, N, Kept>(x + row * cols, row < rows ? cols / N : 0);
  };
  RowPacks<X, N, Kept> now = request(blockIdx.x);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const RowPacks<X, N, Kept> next = request(row + gridDim.x);
    f(row, now);
    now = next;
  }
}

// For kernels that sum columns: a thread keeps up to 8 columns, so 320 threads hold rows of 2560.
template <int N>
inline constexpr int column_kept = N == 8 ? 1 : 2;
inline constexpr int column_threads = 320;

// The number of blocks that share the rows of a column sum, at most `most`.
inline int column_blocks(std::int64_t rows, int most) {
  return static_cast<int>(std::min<std::int64_t>(rows, most));
}

// Column sums over the rows of a team: each thread adds values at its packs of columns. The result
// is written to sums [cols], or added to it. Packs that are not kept in registers are accumulated
// in sums.
template <int N, int Kept>
class ColumnSums {
 public:
  __device__ ColumnSums(float* sums, int packs, bool accumulate = false)
      : sums_(sums), packs_(packs) {
    for_each_pack<Kept>(packs, [&](int k, int i) {
      if (accumulate && k < Kept) kept_[k] = Pack<float, N>::load(sums_ + i * N);
      if (!accumulate && k == Kept) Pack<float, N>{}.store(sums_ + i * N);
    });
  }
  __device__ void add(int k, int i, const Pack<float, N>& term) {
    if (k < Kept) {
#pragma unroll
      for (int j = 0; j < N; ++j) kept_[k].element[j] += term[j];
    } else {
      auto sum = Pack<float, N>::load(sums_ + i * N);
#pragma unroll
      for (int j = 0; j < N; ++j) sum.element[j] += term[j];
      sum.store(sums_ + i * N);
    }
  }
  __device__ void finish() const {
    for_each_kept<Kept>(packs_, [&](int k, int i) { kept_[k].store(sums_ + i * N); });
  }
  // For teams that keep all their packs: adds the sums of the block's teams, in the order of the
  // teams. shared [teams, packs]
  __device__ void finish_teams(Pack<float, N>* shared) const {
    for_each_kept<Kept>(packs_, [&](int k, int i) {
      shared[static_cast<int>(threadIdx.y) * packs_ + i] = kept_[k];
    });
    __syncthreads();
    const int thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
    const int threads = static_cast<int>(blockDim.x * blockDim.y);
    for (int i = thread; i < packs_; i += threads) {
      Pack<float, N> sum = shared[i];
      for (int team = 1; team < static_cast<int>(blockDim.y); ++team) {
        const Pack<float, N>& term = shared[team * packs_ + i];
#pragma unroll
        for (int j = 0; j < N; ++j) sum.element[j] += term[j];
      }
      sum.store(sums_ + i * N);
    }
  }

 private:
  float* sums_;
  int packs_;
  Pack<float, N> kept_[Kept] = {};
};

}  // namespace paceline
