// The engine of exact float32.

#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/flash_engine.h"

namespace paceline {

namespace {

bool supports_exact(const FlashShape& s, FlashPass /*pass*/) {
  return s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
}

FlashTiles exact_plan(const FlashShape& /*s*/, FlashPass /*pass*/) { return exact_tiles; }

void checked_exact_forward(const FlashForward& call) {
  check_32_bit_offsets(call.shape, operands(call));
  exact_forward(call);
}

void checked_exact_backward(const FlashBackward& call) {
  check_32_bit_offsets(call.shape, operands(call));
  exact_backward(call);
}

}  // namespace

const FlashEngine exact_engine = {supports_exact, sm80_workspace_bytes, exact_plan,
                                  checked_exact_forward, checked_exact_backward};

}  // namespace paceline
