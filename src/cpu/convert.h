#pragma once
// Conversion of ranges of a floating-point tensor to float or double, and back.

#include <cstdint>

#include "core/tensor.h"

namespace paceline {

// Converts elements first ... first + n - 1 of the tensor's memory (its shape is ignored). Rounds
// to nearest; a double is converted to a half type through float.
template <class C>
void load(C* to, const Tensor& from, std::int64_t first, std::int64_t n);
template <class C>
void store(const Tensor& to, std::int64_t first, const C* from, std::int64_t n);

}  // namespace paceline
