#pragma once
// Encoding and decoding of binary floating-point formats: sign, exponent, mantissa.

#include <cstdint>
#include <string>
#include <string_view>

#include "core/enum_names.h"

namespace paceline {

// e4m3 and e5m2 are OCP's 8-bit formats ("OFP8 formats for deep learning", revision 1.0). e4m3 has
// no infinity and one NaN per sign, so that its largest number is 448; e5m2 follows IEEE 754.
enum class Format : std::uint8_t { fp32, tf32, bf16, fp16, e4m3, e5m2 };
constexpr auto names_of(Format) { return names("fp32", "tf32", "bf16", "fp16", "e4m3", "e5m2"); }

struct FloatFormat {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;

  [[nodiscard]] int bits() const { return 1 + exponent_bits + mantissa_bits; }
  [[nodiscard]] int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  // Half the distance from 1 to the next number.
  [[nodiscard]] double unit_roundoff() const;
};
[[nodiscard]] const FloatFormat& format_of(Format format);

enum class NumberKind : std::uint8_t { zero, subnormal, normal, infinity, nan };
constexpr auto names_of(NumberKind) {
  return names("zero", "subnormal", "normal", "infinity", "nan");
}

// The stored fields of a number.
struct EncodedNumber {
  bool negative = false;
  std::uint32_t exponent = 0;  // as stored, with the bias
  std::uint32_t mantissa = 0;  // without the leading 1 of normal numbers

  [[nodiscard]] bool operator==(const EncodedNumber&) const = default;
};

// Rounds to nearest, ties to even. Numbers beyond the largest become infinity or, in a format
// without infinity, NaN.
[[nodiscard]] EncodedNumber encode(const FloatFormat& format, double x);
[[nodiscard]] NumberKind kind_of(const FloatFormat& format, const EncodedNumber& number);
[[nodiscard]] double decode(const FloatFormat& format, const EncodedNumber& number);
// The lowest `count` bits, the most significant first: "10000010".
[[nodiscard]] std::string bits_text(std::uint32_t bits, int count);

}  // namespace paceline
