#pragma once
// Ranges of a floating tensor as float or double, and back.

#include <cstdint>

#include "core/tensor.h"

namespace paceline {

// Elements first ... first + n - 1 of the tensor's memory (its shape is not looked at). Rounds to
// nearest; a double reaches a half type by way of float.
void load(float* to, const Tensor& from, std::int64_t first, std::int64_t n);
void load(double* to, const Tensor& from, std::int64_t first, std::int64_t n);
void store(const Tensor& to, std::int64_t first, const float* from, std::int64_t n);
void store(const Tensor& to, std::int64_t first, const double* from, std::int64_t n);

}  // namespace paceline
