#pragma once
// Tensor: a view (pointer, shape, dtype) of contiguous row-major memory on some device.
// Declarations state the shape in a comment: Tensor qkv;  // [B, T, 3, H, d]
// Heads and Matrix: strided views, the operands of attention and of matrix products.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.h"

namespace paceline {

class Shape {
 public:
  static constexpr int max_ndim = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);  // throws InternalError beyond max_ndim

  [[nodiscard]] int ndim() const { return ndim_; }
  [[nodiscard]] std::int64_t operator[](int i) const {
    return dims_[static_cast<std::size_t>(i < 0 ? ndim_ + i : i)];
  }
  [[nodiscard]] std::int64_t numel() const;
  [[nodiscard]] Shape with_last(std::int64_t dim) const;
  [[nodiscard]] bool operator==(const Shape&) const = default;
  [[nodiscard]] std::string str() const;  // "[4, 128, 64]"

 private:
  std::array<std::int64_t, max_ndim> dims_{};
  int ndim_ = 0;
};

struct Tensor {
  void* data = nullptr;
  Shape shape;
  Dtype dtype = Dtype::f32;

  [[nodiscard]] bool empty() const { return data == nullptr; }
  [[nodiscard]] std::int64_t numel() const { return shape.numel(); }
  [[nodiscard]] std::size_t bytes() const {
    return static_cast<std::size_t>(numel()) * size_of(dtype);
  }
  // cols: the last dimension. rows: the product of the others.
  [[nodiscard]] std::int64_t cols() const { return shape[-1]; }
  [[nodiscard]] std::int64_t rows() const { return numel() / cols(); }

  // Typed access; throws InternalError when T is not the tensor's type.
  template <class T>
  [[nodiscard]] T* as() const {
    check_dtype(dtype_of<T>);
    return static_cast<T*>(data);
  }

  // The same memory with another shape of the same number of elements.
  [[nodiscard]] Tensor reshape(const Shape& to) const;
  // to.numel() elements, starting `offset` elements into this tensor.
  [[nodiscard]] Tensor slice(std::int64_t offset, const Shape& to) const;

 private:
  void check_dtype(Dtype wanted) const;
};

// Heads: q, k, v or o of attention as a strided view [B, T, H, d], so that packed qkv is not
// copied. Strides are in elements; the d elements of a head's row are contiguous.
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

// An operand of a matrix product, with up to two batch dimensions. Strides are in elements.
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
