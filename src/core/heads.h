#pragma once
// Heads: q, k, v or o of attention as a strided view [B, T, H, d], so that those of packed qkv need
// no copy.

#include <cstdint>
#include <initializer_list>

#include "core/tensor.h"

namespace paceline {

// Strides in elements; the d elements of a head's row are neighbours.
struct Heads {
  Tensor tensor;  // its first element is the first head's; the shape is not looked at
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;

  Heads() = default;
  // All of a contiguous [B, T, H, d].
  explicit Heads(const Tensor& x);

  [[nodiscard]] Dtype dtype() const { return tensor.dtype; }
  // Where the d elements of one row start.
  [[nodiscard]] std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return b * batch_stride + t * row_stride + h * head_stride;
  }
};

struct QkvHeads {
  Heads q, k, v;

  // Of packed [B, T, 3, H, d].
  explicit QkvHeads(const Tensor& qkv);
};

// Throws InternalError, naming the operation, unless all have the same dtype, B, T, H and d, and
// logsumexp is [B, H, T] in float32 (float64 beside float64).
void check_heads(const char* operation, std::initializer_list<Heads> all, const Tensor& logsumexp);

}  // namespace paceline
