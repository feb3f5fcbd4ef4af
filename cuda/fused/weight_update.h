#pragma once
// Weights' gradients and their AdamW updates in one kernel, for Hopper.

#include <cuda_runtime.h>

#include <vector>

#include "core/ops.h"

namespace paceline {

// The gradient dW = dy^T x is not stored.
struct WeightProduct {
  Array dy;             // [rows, out] bfloat16, out a multiple of 8
  Array x;              // [rows, in] bfloat16, in a multiple of 8
  WeightUpdate update;  // of the weight [out, in], float32 with a bfloat16 copy
};

constexpr std::size_t max_weights_of_update = 24;  // kernel parameters have at most 32 KB

// One to max_weights_of_update products of the same rows, optimizer step and hyperparameters.
// Throws EnvironmentError unless the addresses are multiples of 16 bytes.
void sm90_weight_update(const std::vector<WeightProduct>& products, cudaStream_t stream);

}  // namespace paceline
