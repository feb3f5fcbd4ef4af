#pragma once
// Strided operands. Matrix: of a matrix product, repeated over up to two batch dimensions. Heads:
// q, k, v or o of attention as a view [B, T, H, d], so that those of packed qkv need no copy.

#include <array>
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

// Strides are in elements.
struct Matrix {
  Tensor tensor;  // its first element is the matrix's; the shape is not looked at
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::array<std::int64_t, 2> batch{1, 1};
  std::array<std::int64_t, 2> batch_stride{0, 0};
  bool transposed = false;  // read as its transpose: [cols, rows]
  Tensor scale;             // [1] float32 that every element is multiplied by; empty: 1

  Matrix() = default;
  // All of a contiguous tensor as [rows, cols].
  explicit Matrix(const Tensor& t)
      : tensor(t), rows(t.rows()), cols(t.cols()), row_stride(t.cols()) {}
  // [T, d] for every (B, H).
  explicit Matrix(const Heads& x)
      : tensor(x.tensor),
        rows(x.context),
        cols(x.head_dim),
        row_stride(x.row_stride),
        batch{x.batch, x.heads},
        batch_stride{x.batch_stride, x.head_stride} {}
  // As it is read: transposed or not.
  [[nodiscard]] std::int64_t read_rows() const { return transposed ? cols : rows; }
  [[nodiscard]] std::int64_t read_cols() const { return transposed ? rows : cols; }
  [[nodiscard]] Matrix transpose() const {
    Matrix m = *this;
    m.transposed = !transposed;
    return m;
  }
};

// Throws InternalError unless c = a b is a product that devices compute: shapes and batches agree,
// c is not transposed, a and b have one dtype, and no operand has a scale.
void check_product(const Matrix& c, const Matrix& a, const Matrix& b);

}  // namespace paceline
