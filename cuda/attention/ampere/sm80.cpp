#include "cuda/attention/ampere/sm80.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "cuda/attention/flash_engine.h"

namespace paceline {

void check_32_bit_offsets(const FlashShape& s, std::span<const FlashHeads> all) {
  for (const FlashHeads& x : all) {
    // Offsets are computed, but not dereferenced, for up to a tile's rows past the last. A split
    // float32 row has 2 d elements.
    const std::int64_t row =
        s.dtype == Dtype::f32 ? std::max(x.row_stride, 2 * s.head_dim) : x.row_stride;
    if ((s.context + 128) * row > std::numeric_limits<std::int32_t>::max()) {
      throw EnvironmentError(fmt::format(
          "--attention flash on a GPU: {} rows, {} elements apart, are more than it can address",
          s.context, row));
    }
  }
}

std::size_t sm80_workspace_bytes(const FlashShape& s, FlashPass pass) {
  return static_cast<std::size_t>(sm80_workspace(s, pass).end);
}

namespace {

bool supports_sm80(const FlashShape& s, FlashPass /*pass*/) {
  return s.dtype != Dtype::f32 || s.fp32 != Fp32Attention::exact;
}

FlashTiles sm80_plan(const FlashShape& s, FlashPass pass) {
  const auto head_dim = static_cast<int>(s.head_dim);
  const int bytes = static_cast<int>(size_of(s.dtype));
  if (pass == FlashPass::forward) {
    const Sm80ForwardTiles tiles = sm80_forward_tiles(head_dim, bytes);
    return {"sm80", tiles.queries(), tiles.keys};
  }
  const Sm80BackwardTiles tiles = sm80_backward_tiles(head_dim, bytes);
  return {"sm80", tiles.queries, tiles.keys};
}

void sm80_forward(const FlashForward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16:
    case Dtype::f16: return sm80_forward_half(call);
    case Dtype::f32: return sm80_forward_fp32(call);
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

void sm80_backward_fp32(const FlashBackward& call) {
  switch (call.shape.fp32) {
    case Fp32Attention::bf16x3: return sm80_backward_bf16x3(call);
    case Fp32Attention::tf32: return sm80_backward_tf32(call);
    case Fp32Attention::exact: break;
  }
  throw_no_flash(call.shape.dtype);
}

void sm80_backward(const FlashBackward& call) {
  switch (call.shape.dtype) {
    case Dtype::bf16: return sm80_backward_bf16(call);
    case Dtype::f16: return sm80_backward_fp16(call);
    case Dtype::f32: return sm80_backward_fp32(call);
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw_no_flash(call.shape.dtype);
}

}  // namespace

const FlashEngine sm80_engine = {supports_sm80, check_32_bit_offsets, sm80_workspace_bytes,
                                 sm80_plan,     sm80_forward,         sm80_backward};

}  // namespace paceline
