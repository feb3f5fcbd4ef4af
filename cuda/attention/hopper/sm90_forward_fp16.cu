// Hopper's forward pass for float16.

#include "cuda/attention/hopper/sm90_forward_half.cuh"

namespace paceline {

void sm90_forward_fp16(const FlashForward& call) { start_forward_half<__half>(call); }

}  // namespace paceline
