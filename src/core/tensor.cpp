#include "core/tensor.h"

#include <algorithm>

#include "core/error.h"

namespace paceline {

Shape::Shape(std::initializer_list<std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > max_rank) throw InternalError("a shape has more than 5 dimensions");
  std::copy(dims.begin(), dims.end(), dims_.begin());
}

std::int64_t Shape::numel() const {
  std::int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= (*this)[i];
  return n;
}

std::string Shape::str() const {
  std::string s = "[";
  for (int i = 0; i < rank_; ++i) s += (i > 0 ? ", " : "") + std::to_string((*this)[i]);
  return s + "]";
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
