#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "experiments/precision/studies.h"
#include "experiments/precision/summation.h"

namespace paceline {

namespace {

// Of the addends and of the sum. Casting half addends to float32 before they are added changes no
// sum.
std::pair<Dtype, Dtype> dtypes_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::fp32: return {Dtype::f32, Dtype::f32};
    case Arithmetic::fp16: return {Dtype::f16, Dtype::f16};
    case Arithmetic::fp16_into_fp32:
    case Arithmetic::fp16_upcast: return {Dtype::f16, Dtype::f32};
    case Arithmetic::bf16: return {Dtype::bf16, Dtype::bf16};
    case Arithmetic::bf16_into_fp32: return {Dtype::bf16, Dtype::f32};
  }
  throw_unnamed(static_cast<std::size_t>(arithmetic));
}

// For n positive numbers, |computed - exact| <= bound * exact, to first order in the unit roundoff
// u of the sum's dtype. Source: Higham, "The accuracy of floating point summation" (SIAM J. Sci.
// Comput. 14, 1993).
double error_bound(Summation how, double n, double u) {
  constexpr auto block = static_cast<double>(summation_block);
  switch (how) {
    case Summation::sequential: return (n - 1) * u;
    case Summation::pairwise: return std::ceil(std::log2(n)) * u;
    case Summation::blocked: return (std::min(n, block) + std::ceil(n / block) - 2) * u;
    case Summation::compensated: return 2 * u;
  }
  throw_unnamed(static_cast<std::size_t>(how));
}

double relative_error(double value, double exact) {
  return value == exact ? 0 : std::abs((value - exact) / exact);
}

}  // namespace

void add_accumulation(CaseRecord& record, const PrecisionCase& c) {
  const auto [addend_dtype, sum_dtype] = dtypes_of(c.arithmetic);
  const float addend = nearest(addend_dtype, static_cast<float>(c.addend));
  const std::vector<float> addends(static_cast<std::size_t>(c.count), addend);
  const double sum = sum_of(c.summation, addends, sum_dtype);
  const auto count = static_cast<double>(c.count);
  record.add("sum", sum);
  record.add("exact_sum", count * c.addend);
  record.add("sum_error", relative_error(sum, count * c.addend));
  record.add("addend_error", relative_error(addend, c.addend));
  record.add("rounding_error", relative_error(sum, count * addend));
  record.add("rounding_bound", error_bound(c.summation, count, unit_roundoff(sum_dtype)));
}

}  // namespace paceline
