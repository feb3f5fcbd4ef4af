#pragma once
// What the copy engine must know of a tensor, encoded by the driver on the host.

#include <cuda.h>

#include "cuda/attention/flash.h"

namespace paceline::hopper {

// Of x, in boxes of [rows, cols of a SharedTile's panel] with its swizzle; `cols` is the whole
// tile's. 16-bit elements; the address and the strides must be multiples of 16 bytes: throws
// EnvironmentError where they are not.
[[nodiscard]] CUtensorMap tensor_map(const FlashHeads& x, const FlashShape& shape, int rows,
                                     int cols);

}  // namespace paceline::hopper
