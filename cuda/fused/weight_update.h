#pragma once
// A weight's gradient and its AdamW update in one kernel, for Hopper.

#include <cuda_runtime.h>

#include "core/ops.h"

namespace paceline {

// The gradient dW = dy^T x is not stored.
struct WeightUpdateCall {
  Tensor dy;                   // [rows, out] bfloat16, out a multiple of 8
  Tensor x;                    // [rows, in] bfloat16, in a multiple of 8
  const WeightUpdate& weight;  // [out, in], float32 with a bfloat16 copy
  cudaStream_t stream;
};

// Throws EnvironmentError unless the addresses are multiples of 16 bytes.
void sm90_weight_update(const WeightUpdateCall& call);

}  // namespace paceline
