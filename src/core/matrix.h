#pragma once
// Strided operands. Matrix: an operand of a matrix product, with up to two batch dimensions. Heads:
// q, k, v or o of attention as a view [B, T, H, d], so that packed qkv is not copied.

#include <array>
#include <cstdint>
#include <initializer_list>

#include "core/tensor.h"

namespace paceline {

// Strides are in elements; the d elements of a head's row are contiguous.
struct Heads {
  Tensor tensor;  // starts at the first head; its shape is ignored
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;

  Heads() = default;
  // A contiguous tensor [B, T, H, d].
  explicit Heads(const Tensor& x);

  [[nodiscard]] Dtype dtype() const { return tensor.dtype; }
  // The offset of the first of the d elements of one row.
  [[nodiscard]] std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return b * batch_stride + t * row_stride + h * head_stride;
  }
};

struct QkvHeads {
  Heads q, k, v;

  // Views of packed qkv [B, T, 3, H, d].
  explicit QkvHeads(const Tensor& qkv);
};

// Throws InternalError, naming the operation, unless all have the same dtype, B, T, H and d, and
// logsumexp is [B, H, T] in float32 (float64 for float64 heads).
void check_heads(const char* operation, std::initializer_list<Heads> all, const Tensor& logsumexp);

// Strides are in elements.
struct Matrix {
  Tensor tensor;  // starts at the matrix; its shape is ignored
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t row_stride = 0;
  std::array<std::int64_t, 2> batch{1, 1};
  std::array<std::int64_t, 2> batch_stride{0, 0};
  bool transposed = false;  // read as its transpose: [cols, rows]
  Tensor scale;             // [1] float32 that every element is multiplied by; empty: 1

  Matrix() = default;
  // A contiguous tensor as one matrix [rows, cols].
  explicit Matrix(const Tensor& t)
      : tensor(t), rows(t.rows()), cols(t.cols()), row_stride(t.cols()) {}
  // A batch of B H matrices [T, d].
  explicit Matrix(const Heads& x)
      : tensor(x.tensor),
        rows(x.context),
        cols(x.head_dim),
        row_stride(x.row_stride),
        batch{x.batch, x.heads},
        batch_stride{x.batch_stride, x.head_stride} {}
  // Dimensions after the transposition, if any.
  [[nodiscard]] std::int64_t read_rows() const { return transposed ? cols : rows; }
  [[nodiscard]] std::int64_t read_cols() const { return transposed ? rows : cols; }
  [[nodiscard]] Matrix transpose() const {
    Matrix m = *this;
    m.transposed = !transposed;
    return m;
  }
};

// Throws InternalError unless devices can compute c = a b: shapes and batches agree,
// c is not transposed, a and b have one dtype, and no operand has a scale.
void check_product(const Matrix& c, const Matrix& a, const Matrix& b);

}  // namespace paceline
