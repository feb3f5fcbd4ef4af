// The engine of exact float32.

#include "cuda/attention/ampere/sm80.h"
#include "cuda/attention/flash_engine.h"

namespace paceline {

namespace {

bool supports_exact(const FlashShape& s, FlashPass /*pass*/) {
  return s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
}

FlashTiles exact_plan(const FlashShape& /*s*/, FlashPass /*pass*/) { return exact_tiles; }

}  // namespace

const FlashEngine exact_engine = {supports_exact, check_32_bit_offsets, sm80_workspace_bytes,
                                  exact_plan,     exact_forward,        exact_backward};

}  // namespace paceline
