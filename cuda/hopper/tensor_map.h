#pragma once
// What the copy engine must know of a tensor, encoded by the driver on the host.

#include <cuda.h>

#include <array>
#include <cstdint>

namespace paceline::hopper {

// Of 16-bit elements, in four dimensions, the innermost first, whose elements are neighbours.
struct TensorInMemory {
  void* data = nullptr;
  std::array<std::int64_t, 4> sizes{};
  std::array<std::int64_t, 3> strides{};  // of the others, in elements
};

// In boxes of [rows, cols of a SharedTile's panel] of the first two dimensions, with its swizzle;
// `cols` is the whole tile's. The address and the strides must be multiples of 16 bytes: throws
// EnvironmentError where they are not.
[[nodiscard]] CUtensorMap tensor_map(const TensorInMemory& x, int rows, int cols);

}  // namespace paceline::hopper
