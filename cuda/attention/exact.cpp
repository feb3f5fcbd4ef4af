// The engine of exact float32.

#include "cuda/attention/flash_engine.h"
#include "cuda/attention/sm80.h"

namespace paceline {

namespace {

bool supports(const FlashShape& s, FlashPass /*pass*/) {
  return s.dtype == Dtype::f32 && s.fp32 == Fp32Attention::exact;
}

std::size_t workspace(const FlashShape& s, FlashPass pass) {
  return static_cast<std::size_t>(sm80_workspace(s, pass).end);
}

FlashTiles plan(const FlashShape& /*s*/, FlashPass /*pass*/) { return exact_tiles; }

void forward(const FlashForward& call) {
  check_32_bit_offsets(call.shape, {call.q, call.k, call.v, call.o});
  exact_forward(call);
}

void backward(const FlashBackward& call) {
  check_32_bit_offsets(call.shape,
                       {call.q, call.k, call.v, call.o, call.d_o, call.dq, call.dk, call.dv});
  exact_backward(call);
}

}  // namespace

const FlashEngine exact_engine = {supports, workspace, plan, forward, backward};

}  // namespace paceline
