// The backward pass for float32 as two bfloat16 (bf16x3).

#include "cuda/attention/ampere/sm80_backward_call.cuh"

namespace paceline {

void sm80_backward_bf16x3(const FlashBackward& call) { sm80_backward_fp32<Bf16x3>(call); }

}  // namespace paceline
