#pragma once
// Flash attention for Hopper (compiled for sm_90a only): bfloat16 and float16, head dimensions 16,
// 32, 64, 80 and 128; forward also float32 as two bfloat16 (bf16x3).

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/attention/flash.h"

namespace paceline {

void sm90_backward(const FlashBackward& call);
[[nodiscard]] std::size_t sm90_backward_workspace_bytes(const FlashShape& shape);

[[nodiscard]] FlashTiles sm90_forward_tiles(const FlashShape& shape);
[[nodiscard]] FlashTiles sm90_backward_tiles(const FlashShape& shape);

// The tensor map of heads of 16-bit elements, for tiles of [rows, cols] (hopper/tensor_map.h).
[[nodiscard]] CUtensorMap tensor_map(const FlashHeads& x, const FlashShape& shape, int rows,
                                     int cols);

constexpr std::int64_t l2_section_bytes = 32 << 20;  // what stays in the L2 cache
// The number of heads, of all sequences, that fit into the L2 cache together: 1 or more.
[[nodiscard]] int heads_per_section(const FlashShape& shape, int bytes_per_position);

// Calls f.template operator()<T>() with the element type. Throws InternalError if it is not a
// 16-bit type.
template <class F>
void dispatch_half(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::bf16: return f.template operator()<__nv_bfloat16>();
    case Dtype::f16: return f.template operator()<__half>();
    case Dtype::f64:
    case Dtype::f32:
    case Dtype::i32: break;
  }
  throw_no_flash(dtype);
}

}  // namespace paceline
