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

}  // namespace paceline
