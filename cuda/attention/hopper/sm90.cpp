#include "cuda/attention/hopper/sm90.h"

#include <algorithm>

#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/flash_engine.h"
#include "cuda/attention/hopper/sm90_forward.h"
#include "cuda/hopper/tensor_map.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

namespace {

bool supports_sm90(const FlashShape& s, FlashPass pass) {
  if (s.kernels != FlashKernels::newest || compute_capability() != 90) return false;
  const bool bf16x3 = s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::bf16x3;
  return s.dtype != Dtype::f32 || (bf16x3 && pass == FlashPass::forward);
}

std::size_t sm90_workspace(const FlashShape& s, FlashPass pass) {
  if (s.dtype == Dtype::f32) return sm80_workspace_bytes(s, pass);
  return pass == FlashPass::forward ? 0 : sm90_backward_workspace_bytes(s);
}

FlashTiles sm90_plan(const FlashShape& s, FlashPass pass) {
  return pass == FlashPass::forward ? sm90_forward_tiles(s) : sm90_backward_tiles(s);
}

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

}  // namespace

const FlashEngine sm90_engine = {supports_sm90, nullptr,      sm90_workspace,
                                 sm90_plan,     sm90_forward, sm90_backward};

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
