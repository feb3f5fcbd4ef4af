// The backward pass for float16.

#include "cuda/attention/ampere/sm80_backward_call.cuh"

namespace paceline {

void sm80_backward_fp16(const FlashBackward& call) { sm80_backward_half<__half>(call); }

}  // namespace paceline
