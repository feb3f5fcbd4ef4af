#pragma once
// Ranges of a floating tensor as float or double, and back.

#include <cstdint>

#include "core/tensor.h"

namespace paceline {

// Elements first ... first + n - 1 of the tensor's memory (its shape is not looked at). Rounds to
// nearest; a double reaches a half type by way of float.
template <class C>
void load(C* to, const Tensor& from, std::int64_t first, std::int64_t n);
template <class C>
void store(const Tensor& to, std::int64_t first, const C* from, std::int64_t n);

}  // namespace paceline
