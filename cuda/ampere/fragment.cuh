#pragma once
// Fragments of matrices in the registers of a warp, in the layouts of mma.sync, for three
// arithmetics:
//   Half<T>  bfloat16 or float16
//   Bf16x3   float32 as high + low, both bfloat16: high high + high low + low high
//   Tf32     float32 rounded to tf32
// Lane i has group g = i / 4 and t = i % 4. It holds
//   of C [16, 8]: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1);
//   of A [16, 16], 16-bit: the pairs at (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8);
//   of B [16, 8], 16-bit: the pairs down the column that begin at (2t, g) and (2t + 8, g);
//   of A [16, 8], tf32: (g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4);
//   of B [8, 8], tf32: (t, g), (t + 4, g).
// A product does not depend on the order of k. So t and t + 4 may stand for 2t and 2t + 1 in both
// tf32 operands, and then C is an A without exchange between lanes.

#include "cuda/ampere/ptx.cuh"
#include "cuda/kernels/packed.cuh"

namespace paceline {

__device__ inline int lane_id() { return static_cast<int>(threadIdx.x % 32); }
__device__ inline int warp_id() { return static_cast<int>(threadIdx.x / 32); }

// [16, 16]. pieces: high and low, or two halves of 8 columns.
template <int pieces>
struct FragmentA {
  std::uint32_t x[pieces][4];
};

// [16, 8 N8]
template <int pieces, int N8>
struct FragmentB {
  std::uint32_t x[pieces][2 * N8];
};

// Sums [16 M, 8 N] in float32.
template <int M, int N>
struct Accumulator {
  float x[M][N][4];

  __device__ void clear() {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) x[m][n][i] = 0;
      }
    }
  }
  // Row and column of this lane's x[m][n][i].
  static __device__ int row(int m, int i) { return 16 * m + lane_id() / 4 + i / 2 * 8; }
  static __device__ int column(int n, int i) { return 8 * n + lane_id() % 4 * 2 + i % 2; }

  // Calls f(x, row, column) for every element of this lane.
  template <class F>
  __device__ void for_each(F f) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) f(x[m][n][i], row(m, i), column(n, i));
      }
    }
  }
};

// The order of k in a tf32 product: natural is (t, t + 4), paired is (2t, 2t + 1).
enum class Order : std::uint8_t { natural, paired };

template <class T>
struct Half {
  using Element = T;
  using Pair = std::uint32_t;       // two neighbouring elements of a row
  using Stored = Half<T>;           // the arithmetic of stored results
  static constexpr int parts = 1;   // planes of a tile
  static constexpr int pieces = 1;  // of a fragment
  static constexpr bool sums_by_tile = false;
  static constexpr Order from_sums = Order::natural;

  // c += a b, with columns 8 n ... 8 n + 7 of b.
  template <int N8>
  static __device__ void multiply(float (&c)[4], const FragmentA<1>& a, const FragmentB<1, N8>& b,
                                  int n) {
    mma_m16n8k16<T>(c, a.x[0], b.x[0] + 2 * n);
  }
  // A from the C of columns 0-7 and the C of columns 8-15.
  static __device__ FragmentA<1> operand(const float (&left)[4], const float (&right)[4]) {
    return {{{packed<T>(left[0], left[1]), packed<T>(left[2], left[3]),
              packed<T>(right[0], right[1]), packed<T>(right[2], right[3])}}};
  }
  // Converts two neighbouring elements to what the planes of a tile hold.
  static __device__ void pack(float a, float b, Pair (&plane)[1]) { plane[0] = packed<T>(a, b); }
};

// Results in float32, which no tensor core multiplies.
struct Unrounded {
  using Element = float;
  using Pair = float2;
  static constexpr int parts = 1;

  static __device__ void pack(float a, float b, Pair (&plane)[1]) { plane[0] = {a, b}; }
};

struct Bf16x3 {
  using Element = __nv_bfloat16;
  using Pair = std::uint32_t;
  using Stored = Unrounded;
  static constexpr int parts = 2;
  static constexpr int pieces = 2;
  // Tensor cores round sums towards zero, ordinary additions to nearest. Over thousands of keys the
  // error towards zero would exceed that of the operands. So the product of each tile starts at 0
  // and is added to the sums in float32.
  static constexpr bool sums_by_tile = true;
  static constexpr Order from_sums = Order::natural;

  template <int N8>
  static __device__ void multiply(float (&c)[4], const FragmentA<2>& a, const FragmentB<2, N8>& b,
                                  int n) {
    mma_m16n8k16<Element>(c, a.x[1], b.x[0] + 2 * n);
    mma_m16n8k16<Element>(c, a.x[0], b.x[1] + 2 * n);
    mma_m16n8k16<Element>(c, a.x[0], b.x[0] + 2 * n);
  }
  static __device__ void pack(float a, float b, Pair (&plane)[2]) {
    const SplitPair pair = split(a, b);
    plane[0] = pair.high;
    plane[1] = pair.low;
  }
  static __device__ FragmentA<2> operand(const float (&left)[4], const float (&right)[4]) {
    FragmentA<2> a;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&from)[4] = i < 2 ? left : right;
      Pair plane[2];
      pack(from[i % 2 * 2], from[i % 2 * 2 + 1], plane);
      a.x[0][i] = plane[0];
      a.x[1][i] = plane[1];
    }
    return a;
  }
};

struct Tf32 {
  using Element = float;
  using Pair = float2;
  using Stored = Unrounded;
  static constexpr int parts = 1;
  static constexpr int pieces = 2;
  static constexpr bool sums_by_tile = false;
  static constexpr Order from_sums = Order::paired;

  template <int N8>
  static __device__ void multiply(float (&c)[4], const FragmentA<2>& a, const FragmentB<2, N8>& b,
                                  int n) {
    mma_m16n8k8_tf32(c, a.x[0], b.x[0] + 2 * n);
    mma_m16n8k8_tf32(c, a.x[1], b.x[1] + 2 * n);
  }
  static __device__ void pack(float a, float b, Pair (&plane)[1]) {
    plane[0] = {__uint_as_float(rounded_to_tf32(a)), __uint_as_float(rounded_to_tf32(b))};
  }
  static __device__ FragmentA<2> operand(const float (&left)[4], const float (&right)[4]) {
    return {{{rounded_to_tf32(left[0]), rounded_to_tf32(left[2]), rounded_to_tf32(left[1]),
              rounded_to_tf32(left[3])},
             {rounded_to_tf32(right[0]), rounded_to_tf32(right[2]), rounded_to_tf32(right[1]),
              rounded_to_tf32(right[3])}}};
  }
};

}  // namespace paceline
