#pragma once
// Tensor: a view (pointer, shape, dtype) of contiguous row-major memory on some device.
// Declarations state the shape in a comment: Tensor qkv;  // [B, T, 3, H, d]

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

}  // namespace paceline
