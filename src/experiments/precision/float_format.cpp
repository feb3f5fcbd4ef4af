#include "experiments/precision/float_format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace paceline {

namespace {

constexpr std::array<FloatFormat, 6> formats = {{
    {.exponent_bits = 8, .mantissa_bits = 23},
    {.exponent_bits = 8, .mantissa_bits = 10},
    {.exponent_bits = 8, .mantissa_bits = 7},
    {.exponent_bits = 5, .mantissa_bits = 10},
    {.exponent_bits = 4, .mantissa_bits = 3, .has_infinity = false},
    {.exponent_bits = 5, .mantissa_bits = 2},
}};

std::uint32_t ones(int count) { return (std::uint32_t{1} << count) - 1; }

EncodedNumber nan_of(const FloatFormat& f, bool negative) {
  const std::uint32_t quiet = std::uint32_t{1} << (f.mantissa_bits - 1);
  return {negative, ones(f.exponent_bits), f.has_infinity ? quiet : ones(f.mantissa_bits)};
}

EncodedNumber beyond_largest(const FloatFormat& f, bool negative) {
  if (!f.has_infinity) return nan_of(f, negative);
  return {negative, ones(f.exponent_bits), 0};
}

}  // namespace

double FloatFormat::unit_roundoff() const { return std::ldexp(1, -mantissa_bits - 1); }

const FloatFormat& format_of(Format format) { return formats.at(static_cast<std::size_t>(format)); }

EncodedNumber encode(const FloatFormat& f, double x) {
  const bool negative = std::signbit(x);
  if (std::isnan(x)) return nan_of(f, negative);
  if (std::isinf(x)) return beyond_largest(f, negative);
  if (x == 0) return {negative, 0, 0};
  // x = steps 2^(exponent - mantissa bits), steps rounded to an integer in the default mode.
  const int exponent = std::max(std::ilogb(x), 1 - f.bias());
  const double steps = std::nearbyint(std::ldexp(std::abs(x), f.mantissa_bits - exponent));
  const double leading = std::ldexp(1, f.mantissa_bits);
  const bool is_subnormal = steps < leading;
  const bool carries = steps == 2 * leading;
  const int stored = is_subnormal ? 0 : exponent + f.bias() + (carries ? 1 : 0);
  const auto mantissa =
      carries ? 0 : static_cast<std::uint32_t>(is_subnormal ? steps : steps - leading);
  const int largest = static_cast<int>(ones(f.exponent_bits)) - (f.has_infinity ? 1 : 0);
  const bool is_nans = !f.has_infinity && stored == largest && mantissa == ones(f.mantissa_bits);
  if (stored > largest || is_nans) return beyond_largest(f, negative);
  return {negative, static_cast<std::uint32_t>(stored), mantissa};
}

NumberKind kind_of(const FloatFormat& f, const EncodedNumber& n) {
  if (n.exponent == 0) return n.mantissa == 0 ? NumberKind::zero : NumberKind::subnormal;
  if (n.exponent < ones(f.exponent_bits)) return NumberKind::normal;
  if (f.has_infinity) return n.mantissa == 0 ? NumberKind::infinity : NumberKind::nan;
  return n.mantissa == ones(f.mantissa_bits) ? NumberKind::nan : NumberKind::normal;
}

double decode(const FloatFormat& f, const EncodedNumber& n) {
  const double sign = n.negative ? -1 : 1;
  switch (kind_of(f, n)) {
    case NumberKind::nan: return std::numeric_limits<double>::quiet_NaN();
    case NumberKind::infinity: return sign * std::numeric_limits<double>::infinity();
    case NumberKind::zero:
    case NumberKind::subnormal:
      return sign * std::ldexp(n.mantissa, 1 - f.bias() - f.mantissa_bits);
    case NumberKind::normal: break;
  }
  const double steps = static_cast<double>(n.mantissa) + std::ldexp(1, f.mantissa_bits);
  return sign * std::ldexp(steps, static_cast<int>(n.exponent) - f.bias() - f.mantissa_bits);
}

std::string bits_text(std::uint32_t bits, int count) {
  std::string text;
  for (int i = count - 1; i >= 0; --i) text += (bits >> i & 1) != 0 ? '1' : '0';
  return text;
}

}  // namespace paceline
