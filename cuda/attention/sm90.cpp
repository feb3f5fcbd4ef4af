#include "cuda/attention/sm90.h"

#include <algorithm>

#include "cuda/attention/sm90_forward.h"
#include "cuda/hopper/tensor_map.h"

namespace paceline {

void sm90_forward(const FlashForward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16: return sm90_forward_bf16(call);
    case Dtype::f16: return sm90_forward_fp16(call);
    case Dtype::f32: return sm90_forward_bf16x3(call);
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

CUtensorMap tensor_map(const FlashHeads& x, const FlashShape& shape, int rows, int cols) {
  return hopper::tensor_map({.data = x.data,
                             .sizes = {shape.head_dim, shape.context, shape.heads, shape.batch},
                             .strides = {x.row_stride, x.head_stride, x.batch_stride}},
                            rows, cols);
}

int heads_per_section(const FlashShape& shape, int bytes_per_position) {
  return static_cast<int>(std::clamp<std::int64_t>(
      l2_section_bytes / (shape.context * bytes_per_position), 1, shape.batch * shape.heads));
}

}  // namespace paceline
