// The engine of exact float32.

#include "cuda/attention/flash_engine.h"
#include "cuda/attention/sm80.h"

namespace paceline {

namespace {

bool supports(const FlashShape& s, FlashPass /*pass*/) {
  return s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
}

FlashTiles plan(const FlashShape& /*s*/, FlashPass /*pass*/) { return exact_tiles; }

void forward(const FlashForward& call) {
  check_32_bit_offsets(call.shape, operands(call));
  exact_forward(call);
}

void backward(const FlashBackward& call) {
  check_32_bit_offsets(call.shape, operands(call));
  exact_backward(call);
}

}  // namespace

const FlashEngine exact_engine = {supports, sm80_workspace_bytes, plan, forward, backward};

}  // namespace paceline
