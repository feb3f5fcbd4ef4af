// The backward pass for bfloat16.

#include "cuda/attention/ampere/sm80_backward_call.cuh"

namespace paceline {

void sm80_backward_bf16(const FlashBackward& call) { sm80_backward_half<__nv_bfloat16>(call); }

}  // namespace paceline
