// The studies of rounding errors: sums, and norms in half types.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "core/random.h"
#include "experiments/precision/precision.h"

namespace paceline {

namespace {

constexpr std::size_t summation_block = 32;

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

constexpr std::int64_t norm_rows = 32;
constexpr double norm_eps = 1e-5;

// A row's LayerNorm or RMSNorm without weights, y = (x - center) / sqrt(mean((x - center)^2) +
// eps), where center = mean(x), or 0 for RMSNorm. Statistics are in float64, then rounded to T.
template <class T>
std::vector<T> norm(NormKind kind, std::span<const float> x) {
  const auto count = static_cast<double>(x.size());
  double center = 0;
  if (kind == NormKind::layer_norm) {
    for (const double v : x) center += v / count;
  }
  double mean_square = 0;
  for (const double v : x) mean_square += (v - center) * (v - center) / count;
  const auto rstd = static_cast<T>(1 / std::sqrt(mean_square + norm_eps));
  std::vector<T> y;
  for (const T v : x) y.push_back((v - static_cast<T>(center)) * rstd);
  return y;
}

// The same with every operation rounded to `dtype`; sums are pairwise.
std::vector<float> rounded_norm(NormKind kind, std::span<const float> x, Dtype dtype) {
  const auto round = [dtype](float v) { return nearest(dtype, v); };
  const auto mean = [&](std::span<const float> values) {
    return round(sum_of(Summation::pairwise, values, dtype) / static_cast<float>(values.size()));
  };
  const float center = kind == NormKind::layer_norm ? mean(x) : 0;
  std::vector<float> y;
  std::vector<float> squares;
  for (const float v : x) {
    y.push_back(round(v - center));
    squares.push_back(round(y.back() * y.back()));
  }
  const float root = round(std::sqrt(round(mean(squares) + round(norm_eps))));
  const float rstd = round(1 / root);
  for (float& v : y) v = round(v * rstd);
  return y;
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& row) {
  all.insert(all.end(), row.begin(), row.end());
}

template <class T>
double relative_error(const std::vector<T>& got, const std::vector<double>& want) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  const double error = difference == 0 ? 0 : std::sqrt(difference / size);
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

}  // namespace

float nearest(Dtype dtype, float x) {
  return dispatch_floating(dtype, [&]<class T>() { return static_cast<float>(static_cast<T>(x)); });
}

float sum_of(Summation how, std::span<const float> x, Dtype dtype) {
  const auto round = [dtype](float v) { return nearest(dtype, v); };
  float sum = 0;
  float error = 0;  // of the last addition
  switch (how) {
    case Summation::sequential:
      for (const float v : x) sum = round(sum + v);
      return sum;
    case Summation::pairwise: {
      if (x.size() == 1) return round(x.front());
      const std::size_t half = std::bit_ceil(x.size()) / 2;
      return round(sum_of(how, x.first(half), dtype) + sum_of(how, x.subspan(half), dtype));
    }
    case Summation::blocked:
      for (; !x.empty(); x = x.subspan(std::min(summation_block, x.size()))) {
        const auto block = x.first(std::min(summation_block, x.size()));
        sum = round(sum + sum_of(Summation::sequential, block, dtype));
      }
      return sum;
    case Summation::compensated:
      for (const float v : x) {
        const float corrected = round(v - error);
        const float next = round(sum + corrected);
        error = round(round(next - sum) - corrected);
        sum = next;
      }
      return sum;
  }
  throw_unnamed(static_cast<std::size_t>(how));
}

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

void add_norm_errors(CaseRecord& record, const PrecisionCase& c, std::uint64_t seed) {
  const auto width = static_cast<std::size_t>(c.width);
  std::vector<float> x(norm_rows * width);  // [R, D]
  Random(seed, 0).fill_normal(x);
  for (float& v : x) v = static_cast<float>(c.scale * (c.mean + static_cast<double>(v)));
  std::vector<double> exact, of_rounded;  // [R, D]
  std::vector<float> float32, rounded;    // [R, D]
  for (std::size_t first = 0; first < x.size(); first += width) {
    const std::span row = std::span(x).subspan(first, width);
    append(exact, norm<double>(c.norm, row));
    for (float& v : row) v = nearest(c.norm_dtype, v);
    append(of_rounded, norm<double>(c.norm, row));
    append(float32, norm<float>(c.norm, row));
    append(rounded, rounded_norm(c.norm, row, c.norm_dtype));
  }
  for (float& v : float32) v = nearest(c.norm_dtype, v);
  record.add("input_error", relative_error(of_rounded, exact));
  record.add("float32_statistics_error", relative_error(float32, of_rounded));
  record.add("rounded_statistics_error", relative_error(rounded, of_rounded));
}

}  // namespace paceline
