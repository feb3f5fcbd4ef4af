#include "core/tensor.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace paceline {

void throw_not_floating(Dtype d) {
  throw InternalError("an operation on floating-point tensors was given " +
                      std::string(name_of(d)));
}

Shape::Shape(std::initializer_list<std::int64_t> dims) : ndim_(static_cast<int>(dims.size())) {
  if (dims.size() > max_ndim) throw InternalError("a shape has more than 5 dimensions");
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (int i = 0; i < ndim_; ++i) n *= (*this)[i];
  return n;
}

Shape Shape::with_last(std::int64_t dim) const {
  if (ndim_ == 0) throw InternalError("a shape without dimensions has no last dimension");
  Shape s = *this;
  s.dims_.at(static_cast<std::size_t>(ndim_ - 1)) = dim;
  return s;
}

std::string Shape::str() const {
  return fmt::format("[{}]", fmt::join(dims_.begin(), dims_.begin() + ndim_, ", "));
}

Tensor Tensor::reshape(const Shape& to) const {
  if (to.numel() != numel()) {
    throw InternalError("cannot reshape " + shape.str() + " to " + to.str());
  }
  return slice(0, to);
}

Tensor Tensor::slice(std::int64_t offset, const Shape& to) const {
  if (offset < 0 || offset + to.numel() > numel()) {
    throw InternalError("slice " + to.str() + " at " + std::to_string(offset) +
                        " leaves the tensor " + shape.str());
  }
  const auto skip = static_cast<std::size_t>(offset) * size_of(dtype);
  return {data == nullptr ? nullptr : static_cast<std::byte*>(data) + skip, to, dtype};
}

void Tensor::check_dtype(Dtype wanted) const {
  if (wanted != dtype) {
    throw InternalError("a " + std::string(name_of(dtype)) + " tensor was read as " +
                        std::string(name_of(wanted)));
  }
}

Heads::Heads(const Tensor& x)
    : tensor(x),
      batch(x.shape[0]),
      context(x.shape[1]),
      heads(x.shape[2]),
      head_dim(x.shape[3]),
      batch_stride(context * heads * head_dim),
      row_stride(heads * head_dim),
      head_stride(head_dim) {}

QkvHeads::QkvHeads(const Tensor& qkv) {
  const std::int64_t width = qkv.shape[3] * qkv.shape[4];  // elements of q per row
  const auto part = [&](std::int64_t which) {
    Heads x(qkv.slice(which * width, {qkv.shape[0], qkv.shape[1], qkv.shape[3], qkv.shape[4]}));
    x.batch_stride *= 3;
    x.row_stride *= 3;
    return x;
  };
  q = part(0);
  k = part(1);
  v = part(2);
}

void check_heads(const char* operation, std::initializer_list<Heads> all, const Tensor& logsumexp) {
  const Heads& first = *all.begin();
  const bool alike = std::all_of(all.begin(), all.end(), [&](const Heads& x) {
    return x.dtype() == first.dtype() && x.batch == first.batch && x.context == first.context &&
           x.heads == first.heads && x.head_dim == first.head_dim;
  });
  if (!alike) throw InternalError(std::string(operation) + ": heads of different shapes or dtypes");
  if (first.dtype() == Dtype::i32) throw_not_floating(first.dtype());
  const Dtype statistics = first.dtype() == Dtype::f64 ? Dtype::f64 : Dtype::f32;
  if (logsumexp.shape != Shape{first.batch, first.heads, first.context} ||
      logsumexp.dtype != statistics) {
    throw InternalError(std::string(operation) + ": logsumexp is " +
                        std::string(name_of(logsumexp.dtype)) + " " + logsumexp.shape.str());
  }
}

void check_product(const Matrix& c, const Matrix& a, const Matrix& b) {
  const bool shapes = !c.transposed && a.read_rows() == c.rows && b.read_cols() == c.cols &&
                      a.read_cols() == b.read_rows();
  if (!shapes || a.batch != c.batch || b.batch != c.batch) {
    throw InternalError(
        fmt::format("matmul: [{}, {}] x [{}, {}] does not make [{}, {}], or the batches differ",
                    a.read_rows(), a.read_cols(), b.read_rows(), b.read_cols(), c.rows, c.cols));
  }
  if (a.tensor.dtype != b.tensor.dtype) {
    throw InternalError(fmt::format("matmul: inputs of two types, {} and {}",
                                    name_of(a.tensor.dtype), name_of(b.tensor.dtype)));
  }
  if (!a.scale.empty() || !b.scale.empty() || !c.scale.empty()) {
    throw InternalError("matmul: an operand has a scale, and no device multiplies by one yet");
  }
}

}  // namespace paceline
