#pragma once
// How close flash attention must be to the oracle: an tolerance per row.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ops.h"
#include "tests/oracle/closeness.h"

namespace paceline {

// The relative error u of operands in flash attention's products. In bf16 and fp16, P and dS are
// rounded to the dtype; in tf32 every operand is rounded; in bf16x3 every operand is split into two
// bfloat16 numbers. `exact` rounds no operand, but sums, scales and exponentials leave 16 float32
// roundings.
inline double flash_roundoff(Dtype dtype, Fp32Attention fp32) {
  switch (dtype) {
    case Dtype::bf16:
    case Dtype::f16: return unit_roundoff(dtype);
    case Dtype::f32:
      switch (fp32) {
        case Fp32Attention::exact: return 16 * unit_roundoff(Dtype::f32);
        case Fp32Attention::bf16x3: return unit_roundoff(Dtype::bf16) * unit_roundoff(Dtype::bf16);
        case Fp32Attention::tf32: return 2 * 0x1p-11;  // both operands
      }
      break;
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw InternalError("an arithmetic of flash attention without a tolerance");
}

// The tolerances of x [rows, head_dim] if each row is a weighted sum of head_dim-wide vectors of
// normal numbers and the weights are rounded. Rows of o and dq have the weights of o's row (P, and
// P times a normal number); rows of dv and dk have the weights of dv's row. `like` [rows, head_dim]
// is o or dv of the oracle.
//
// An element of a row with weights p has an error of u ||p|| times about one normal number. Where
// D (the row sum of dO O) has an error too, it is u ||p|| times a product of two normal numbers, of
// which 1 in 10^6 exceeds 13. ||p|| is the root mean square of the row of `like`. Hence 16 u ||p||,
// and 4 u |want| for roundings of the element itself.
class FlashTolerances {
 public:
  FlashTolerances(const std::vector<double>& like, std::int64_t head_dim, double roundoff)
      : head_dim_(static_cast<std::size_t>(head_dim)), roundoff_(roundoff) {
    for (std::size_t first = 0; first < like.size(); first += head_dim_) {
      double squares = 0;
      for (std::size_t i = first; i < first + head_dim_; ++i) squares += like[i] * like[i];
      sizes_.push_back(std::sqrt(squares / static_cast<double>(head_dim)));
    }
  }

  Tolerance operator()(std::size_t element) const {
    return {.absolute = 16 * roundoff_ * sizes_[element / head_dim_], .relative = 4 * roundoff_};
  }

 private:
  std::size_t head_dim_;
  double roundoff_;
  std::vector<double> sizes_;  // root mean square of each row
};

}  // namespace paceline
