#pragma once
// SharedTile: a [rows, cols] tile of 16-bit elements in shared memory, as the copy engine writes it
// and the tensor cores read it: panels of at most 64 columns one after the other, in each panel row
// after row, the 16-byte chunks of a row swizzled so that eight rows' same chunks lie in different
// banks.

#include <cstdint>

#include "cuda/hopper/barrier.cuh"

namespace paceline::hopper {

// wgmma's matrix descriptor (PTX ISA, "Matrix Descriptor Format"): the low half has the address,
// which later parts of a tile differ in, and the high half is a constant.
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
  static constexpr int panels = (Cols + panel_cols - 1) / panel_cols;  // the last may be part empty
  static constexpr int row_bytes = panel_cols * 2;  // 32, 64 or 128: the swizzle's span
  static constexpr int panel_bytes = Rows * row_bytes;
  static constexpr int bytes = panels * panel_bytes;

  alignas(1024) unsigned char data[bytes];

  // Where an element lies, in bytes.
  static constexpr __host__ __device__ int offset(int row, int col) {
    constexpr int chunks = row_bytes / 16;
    constexpr int rows_per_128_bytes = 128 / row_bytes;
    const int chunk = col % panel_cols / 8 ^ row / rows_per_128_bytes % chunks;
    return col / panel_cols * panel_bytes + row * row_bytes + chunk * 16 + col % 8 * 2;
  }

  __device__ T& at(int row, int col) { return *reinterpret_cast<T*>(data + offset(row, col)); }
  __device__ unsigned char* panel(int index) { return data + index * panel_bytes; }

  // Sixteen columns from `col` on of the rows from `row` (a multiple of 8) on, as an operand whose
  // product runs over the columns: a of a b^T from 64 rows, b of it from N.
  [[nodiscard]] __device__ Descriptor along_cols(int row, int col) const {
    const int start = col / panel_cols * panel_bytes + row * row_bytes + col % panel_cols * 2;
    return descriptor(start, 16);
  }

  // Sixteen rows from `row` on, of the columns from this panel's first on, as an operand whose
  // product runs over the rows: b of a b, [16, N].
  [[nodiscard]] __device__ Descriptor along_rows(int row, int panel) const {
    return descriptor(panel * panel_bytes + row * row_bytes, panel_bytes);
  }

 private:
  // leading_bytes: from panel to panel where the product runs over the rows.
  [[nodiscard]] __device__ Descriptor descriptor(int start, int leading_bytes) const {
    constexpr std::uint32_t swizzle = row_bytes == 128 ? 1 : row_bytes == 64 ? 2 : 3;
    constexpr std::uint32_t eight_rows = 8 * row_bytes / 16;
    // In a cluster an address begins with its block's rank, which has no place here.
    const std::uint32_t address = shared_address(data) & 0x3ffffU;
    const std::uint32_t tile = address / 16 | leading_bytes / 16U << 16U;
    return {tile + start / 16, eight_rows | swizzle << 30U};
  }
};

}  // namespace paceline::hopper
