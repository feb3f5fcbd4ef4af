#pragma once
// The second stage of deterministic sums: adds the blocks' partial sums in scratch memory, in a
// fixed order.

#include <cuda_runtime.h>

#include <cstdint>

#include "core/tensor.h"

namespace paceline {

// out[j] (+)= sum over g of partial[g stride + j].  out [cols], any floating dtype; partial has
// `groups` rows, `stride` floats apart
void sum_partials(const Tensor& out, bool accumulate, const float* partial, int groups,
                  std::int64_t stride, cudaStream_t stream);

// out[0] = factor * sum of values[0 ... count - 1].  out [1] float32
void sum_values(const Tensor& out, const float* values, std::int64_t count, float factor,
                cudaStream_t stream);

}  // namespace paceline
