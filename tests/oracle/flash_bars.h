#pragma once
// How close flash attention must be to the oracle: element by element, each row by its own bar.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ops.h"
#include "tests/oracle/closeness.h"

namespace paceline {

// What flash attention's products are off by, relative to their operands: u. P and dS are rounded
// to half types, every operand to tf32 or split into two bfloat16; exact rounds none, but sums,
// scales and exponentials leave 16 roundings of float32.
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
  throw InternalError("an arithmetic of flash attention without a bar");
}

// The bars of x [rows, head_dim] where each row is a sum of head_dim-wide vectors of normal numbers
// by weights that are rounded: o's and dq's weights are those of o's row (P, and P times a normal
// number), dv's and dk's those of dv's. `like` [rows, head_dim] is o or dv of the oracle.
//
// An element of a row with weights p is off by u ||p|| times about one normal number, and where D
// (the row sum of dO O) has an error by u ||p|| times a product of two, of which 1 in 10^6 exceeds
// 13. ||p|| is the root mean square of like's row. So 16 u ||p||, and 4 u |want| for roundings of
// the element itself.
class FlashBars {
 public:
  FlashBars(const std::vector<double>& like, std::int64_t head_dim, double roundoff)
      : head_dim_(static_cast<std::size_t>(head_dim)), roundoff_(roundoff) {
    for (std::size_t first = 0; first < like.size(); first += head_dim_) {
      double squares = 0;
      for (std::size_t i = first; i < first + head_dim_; ++i) squares += like[i] * like[i];
      sizes_.push_back(std::sqrt(squares / static_cast<double>(head_dim)));
    }
  }

  Bar operator()(std::size_t element) const {
    return {.absolute = 16 * roundoff_ * sizes_[element / head_dim_], .relative = 4 * roundoff_};
  }

 private:
  std::size_t head_dim_;
  double roundoff_;
  std::vector<double> sizes_;  // of each row
};

}  // namespace paceline
