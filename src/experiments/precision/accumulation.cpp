#include "experiments/precision/accumulation.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>

#include "core/ops.h"
#include "core/toy_ops.h"

namespace paceline {

namespace {

struct ArithmeticDtypes {
  Dtype addend;
  Dtype sum;
  bool upcasts = false;  // addends are cast to the sum's dtype before they are added
};

ArithmeticDtypes dtypes_of(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::fp32: return {Dtype::f32, Dtype::f32};
    case Arithmetic::fp16: return {Dtype::f16, Dtype::f16};
    case Arithmetic::fp16_into_fp32: return {Dtype::f16, Dtype::f32};
    case Arithmetic::fp16_upcast: return {Dtype::f16, Dtype::f32, true};
    case Arithmetic::bf16: return {Dtype::bf16, Dtype::bf16};
    case Arithmetic::bf16_into_fp32: return {Dtype::bf16, Dtype::f32};
  }
  throw_unnamed(static_cast<std::size_t>(arithmetic));
}

// The element of a one-element tensor.
double value_of(Device& device, Ops& ops, const Tensor& x) {
  const Array wide = device.allocate({1}, Dtype::f32, MemoryKind::workspace);
  ops.cast(wide, x);
  float value = 0;
  device.to_host(&value, wide);
  return value;
}

// The largest finite number of a dtype: (1 - u) 2^e.
double largest_of(Dtype dtype) {
  const int exponent = dtype == Dtype::f16 ? 16 : 128;
  return std::ldexp(1 - unit_roundoff(dtype), exponent);
}

double relative_error(double value, double exact) {
  return value == exact ? 0 : std::abs((value - exact) / exact);
}

bool is_explained(const Accumulated& r) {
  constexpr double of_float64 =
      1e-12;  // rounding of the error itself, which is computed in float64
  if (std::isfinite(r.sum)) return r.rounding_error <= r.rounding_largest + of_float64;
  if (!std::isfinite(r.rounded_sum)) return true;
  const bool overflows = std::abs(r.rounded_sum) * (1 + r.rounding_bound) > r.largest;
  return overflows && (std::isinf(r.sum) || r.nan_on_overflow);
}

}  // namespace

double accumulation_memory(const AccumulationFactors& c) {
  const ArithmeticDtypes dtypes = dtypes_of(c.arithmetic);
  const std::size_t each = size_of(dtypes.addend) + (dtypes.upcasts ? size_of(dtypes.sum) : 0);
  return static_cast<double>(c.count) * static_cast<double>(each);
}

Accumulated accumulate(Device& device, const AccumulationFactors& c) {
  const ArithmeticDtypes dtypes = dtypes_of(c.arithmetic);
  const auto allocate = [&](std::int64_t n, Dtype dtype) {
    return device.allocate({n}, dtype, MemoryKind::workspace);
  };
  const std::unique_ptr<Ops> ops = device.make_ops({.precision = precision_named("fp32")});
  const std::unique_ptr<ToyOps> toys = device.make_toy_ops();
  Array addends = allocate(c.count, dtypes.addend);
  ops->fill(addends, c.addend);
  const double addend = value_of(device, *ops, addends.tensor().slice(0, {1}));
  if (dtypes.upcasts) {
    const Array upcast = allocate(c.count, dtypes.sum);
    ops->cast(upcast, addends);
    addends = upcast;
  }
  const Array total = allocate(1, dtypes.sum);
  toys->sum(total, addends, c.summation);

  const double sum = value_of(device, *ops, total);
  const auto count = static_cast<double>(c.count);
  const double u = unit_roundoff(dtypes.sum);
  const double bound = summation_bound(c.summation, c.count, u);
  const bool is_compensated = c.summation == Summation::compensated;
  return {.sum = sum,
          .exact = count * c.addend,
          .addend_error = relative_error(addend, c.addend),
          .error = relative_error(sum, count * c.addend),
          .rounding_error = relative_error(sum, count * addend),
          .rounding_bound = bound,
          .rounding_largest = is_compensated ? std::numeric_limits<double>::infinity()
                                             : std::expm1(bound / u * std::log1p(u)),
          .rounded_sum = count * addend,
          .largest = largest_of(dtypes.sum),
          .nan_on_overflow = is_compensated};
}

void add_accumulated(CaseRecord& record, const Accumulated& result) {
  record.add("sum", result.sum);
  record.add("exact_sum", result.exact);
  record.add("sum_error", result.error);
  record.add("addend_error", result.addend_error);
  record.add("rounding_error", result.rounding_error);
  record.add("rounding_bound", result.rounding_bound);
  if (is_explained(result)) return;
  record.status = Status::mismatch;
  if (!std::isfinite(result.sum)) {
    record.reason = fmt::format("the sum is {}, but {:.6g} is in the range of its dtype",
                                std::isnan(result.sum) ? "nan" : fmt::to_string(result.sum),
                                result.rounded_sum);
    return;
  }
  record.reason = fmt::format("the sum's relative error is {:.3g}, above the bound {:.3g}",
                              result.rounding_error, result.rounding_largest);
}

}  // namespace paceline
