#pragma once
// Shared by the tests of wgmma: operands and products on the host, and checks with operands that
// reveal a misplaced element.

#include <cmath>
#include <random>

#include "tests/gpu/hopper_test.cuh"

namespace paceline {

template <class T>
struct HostMatrix {
  int rows;
  int cols;
  std::vector<T> at = std::vector<T>(static_cast<std::size_t>(rows * cols));

  T& operator()(int row, int col) { return at[static_cast<std::size_t>(row * cols + col)]; }
  const T& operator()(int row, int col) const {
    return at[static_cast<std::size_t>(row * cols + col)];
  }
};

template <class T, class Value>
HostMatrix<T> filled(int rows, int cols, Value value) {
  HostMatrix<T> x{rows, cols};
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < cols; ++c) x(r, c) = value(r, c);
  }
  return x;
}

// Random integers from -8 to 8: their sums are exact in any order.
template <class T>
HostMatrix<T> small_integers(int rows, int cols, unsigned seed) {
  std::mt19937 random(seed);
  return filled<T>(rows, cols, [&](int, int) {
    return static_cast<T>(static_cast<float>(static_cast<int>(random() % 17) - 8));
  });
}

// Distinct elements, which a product with 1 returns unchanged.
template <class T>
HostMatrix<T> all_different(int rows, int cols) {
  return filled<T>(rows, cols, [&](int r, int c) { return coded<T>(r * cols + c); });
}

// Row r is 1 at column (r + shift) % cols and 0 elsewhere.
template <class T>
HostMatrix<T> selecting(int rows, int cols, int shift) {
  return filled<T>(rows, cols, [&](int r, int c) {
    return static_cast<T>(c == (r + shift) % cols ? 1.0F : 0.0F);
  });
}

template <class T>
HostMatrix<T> transposed(const HostMatrix<T>& x) {
  return filled<T>(x.cols, x.rows, [&](int r, int c) { return x(c, r); });
}

// d + a b^T, a [M, K], b [N, K], with exact sums.
template <class T>
HostMatrix<float> product(const HostMatrix<float>& d, const HostMatrix<T>& a,
                          const HostMatrix<T>& b) {
  return filled<float>(d.rows, d.cols, [&](int i, int j) {
    double sum = d(i, j);
    for (int k = 0; k < a.cols; ++k) {
      sum += static_cast<double>(static_cast<float>(a(i, k))) * static_cast<float>(b(j, k));
    }
    return static_cast<float>(sum);
  });
}

// ---- on the GPU --------------------------------------------------------------------------------

// Fills a tile from a row-major [Rows, Width], with all threads of the block. If Width exceeds
// Cols, it also fills the spare columns of the last panel.
template <int Width, class T, int Rows, int Cols>
__device__ void fill(hopper::SharedTile<T, Rows, Cols>& tile, const T* from) {
  for (int i = threadIdx.x; i < Rows * Width; i += blockDim.x) {
    tile.at(i / Width, i % Width) = from[i];
  }
}

// Reads or writes a row-major [64, N] as a warpgroup's accumulator.
template <int N>
__device__ void read(hopper::Accumulator<N>& x, const float* from) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) x.at[i] = from[(x.row() + 8 * x.half(i)) * N + x.col(i)];
}
template <int N>
__device__ void write(float* to, const hopper::Accumulator<N>& x) {
#pragma unroll
  for (int i = 0; i < N / 2; ++i) to[(x.row() + 8 * x.half(i)) * N + x.col(i)] = x.at[i];
}

// Reads a row-major [64, K] in PTX's layout of matrix A (m64nNk16, "Register Fragments"): of each
// 16 columns, rows g and g + 8 and columns 2 t, 2 t + 1, 2 t + 8, 2 t + 9; g = lane / 4, t = lane
// % 4.
template <class T, int K>
__device__ void read(hopper::Operand<K>& x, const T* from) {
  const int lane = hopper::lane();
  const int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int k = 0; k < K / 16; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = 16 * warp + lane / 4 + i % 2 * 8;
      const int col = 16 * k + lane % 4 * 2 + i / 2 * 8;
      x.at[k][i] = *reinterpret_cast<const std::uint32_t*>(from + row * K + col);
    }
  }
}

// ---- checks ------------------------------------------------------------------------------------

// Whether a product ignores the previous contents of its result or adds to them.
enum class Before : std::uint8_t { ignored, added };

// Checks multiply(d, a, b) -> d, a [64, K], b [N, K], with each kind of operands.
template <class T, class Multiply>
void expect_products(const std::string& what, int n, int k, Before before, Multiply multiply) {
  const bool added = before == Before::added;
  const HostMatrix<float> held = filled<float>(
      64, n, [&](int i, int j) { return added ? static_cast<float>(i * n + j) : NAN; });
  const auto check = [&](const std::string& operands, const HostMatrix<T>& a,
                         const HostMatrix<T>& b) {
    const HostMatrix<float> want = product(added ? held : HostMatrix<float>{64, n}, a, b);
    HostMatrix<float> got = multiply(held, a, b);
    for (float& x : got.at) x += 0.0F;  // turns -0 into 0
    expect_same(got.at, want.at, n, what + ", " + operands);
  };
  check("small integers", small_integers<T>(64, k, 1), small_integers<T>(n, k, 2));
  if (added) return;
  for (int shift = 0; shift < k; shift += 64) {
    check("a selects", selecting<T>(64, k, shift), all_different<T>(n, k));
  }
  for (int shift = 0; shift < k; shift += n) {
    check("b selects", all_different<T>(64, k), selecting<T>(n, k, shift));
  }
}

}  // namespace paceline
