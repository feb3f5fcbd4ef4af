#pragma once
// TMA's descriptor of a tensor, which the driver encodes on the host.

#include <cuda.h>

#include <array>
#include <cstdint>

namespace paceline::hopper {

// A tensor of 16-bit elements with four dimensions, the innermost first, which is contiguous.
struct TensorInMemory {
  void* data = nullptr;
  std::array<std::int64_t, 4> sizes{};
  std::array<std::int64_t, 3> strides{};  // of the outer three dimensions, in elements
};

// The map of x for loads of SharedTile [rows, cols]: a box has the rows and one panel of the
// columns in the two innermost dimensions, with the tile's swizzle. Throws EnvironmentError unless
// the address and the strides are multiples of 16 bytes.
[[nodiscard]] CUtensorMap tensor_map(const TensorInMemory& x, int rows, int cols);

}  // namespace paceline::hopper
