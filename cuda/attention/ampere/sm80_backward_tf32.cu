// The backward pass for float32 rounded to tf32.

#include "cuda/attention/ampere/sm80_backward_call.cuh"

namespace paceline {

void sm80_backward_tf32(const FlashBackward& call) { sm80_backward_fp32<Tf32>(call); }

}  // namespace paceline
