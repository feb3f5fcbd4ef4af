#pragma once
// SharedTile: a [rows, cols] tile of 16-bit elements in shared memory, in the layout that TMA
// writes and wgmma reads. Panels of at most 64 columns follow one another; each is row-major. The
// 16-byte chunks of a row are swizzled, so that the same chunk of eight neighbouring rows is in
// different banks.

#include <cstdint>

#include "cuda/hopper/barrier.cuh"

namespace paceline::hopper {

// The matrix descriptor of wgmma (PTX ISA, "Matrix Descriptor Format"). The low half holds the
// address, which differs between parts of a tile; the high half is constant.
struct Descriptor {
  std::uint32_t low;
  std::uint32_t high;

  [[nodiscard]] __device__ std::uint64_t bits() const {
    return static_cast<std::uint64_t>(high) << 32U | low;
  }
};

template <class T, int Rows, int Cols>
struct SharedTile {
  static_assert(sizeof(T) == 2 && Rows % 8 == 0 && Cols % 16 == 0);
  static_assert(Cols == 16 || Cols == 32 || Cols >= 64);
  static constexpr int rows = Rows;
  static constexpr int cols = Cols;
  static constexpr int panel_cols = Cols < 64 ? Cols : 64;
  static constexpr int panels = (Cols + panel_cols - 1) / panel_cols;  // the last may be partial
  static constexpr int row_bytes = panel_cols * 2;  // 32, 64 or 128: the swizzle's span
  static constexpr int panel_bytes = Rows * row_bytes;
  static constexpr int bytes = panels * panel_bytes;

  alignas(1024) unsigned char data[bytes];

  // The offset of an element in bytes.
  static constexpr __host__ __device__ int offset(int row, int col) {
    constexpr int chunks = row_bytes / 16;
    constexpr int rows_per_128_bytes = 128 / row_bytes;
    const int chunk = col % panel_cols / 8 ^ row / rows_per_128_bytes % chunks;
    return col / panel_cols * panel_bytes + row * row_bytes + chunk * 16 + col % 8 * 2;
  }

  __device__ T& at(int row, int col) { return *reinterpret_cast<T*>(data + offset(row, col)); }
  __device__ unsigned char* panel(int index) { return data + index * panel_bytes; }

  // An operand with k along the columns: 16 columns from `col` on, of the rows from `row` (a
  // multiple of 8) on. In a b^T, a has 64 rows and b has N.
  [[nodiscard]] __device__ Descriptor along_cols(int row, int col) const {
    const int start = col / panel_cols * panel_bytes + row * row_bytes + col % panel_cols * 2;
    return descriptor(start, 16);
  }

  // An operand with k along the rows: 16 rows from `row` on, of the columns from the panel's first
  // on. In a b, it is b [16, N].
  [[nodiscard]] __device__ Descriptor along_rows(int row, int panel) const {
    return descriptor(panel * panel_bytes + row * row_bytes, panel_bytes);
  }

 private:
  // leading_bytes: the distance of panels, for an operand with k along the rows.
  [[nodiscard]] __device__ Descriptor descriptor(int start, int leading_bytes) const {
    constexpr std::uint32_t swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
    constexpr std::uint32_t eight_rows = 8 * row_bytes / 16;
    // In a cluster the upper bits of the address hold the rank of the block, which is masked out.
    const std::uint32_t address = shared_address(data) & 0x3ffffU;
    const std::uint32_t tile = address / 16 | leading_bytes / 16U << 16U;
    return {tile + start / 16, eight_rows | swizzle << 30U};
  }
};

}  // namespace paceline::hopper
