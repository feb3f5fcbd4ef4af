#include "experiments/precision/float_format.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "core/dtype.h"
#include "tests/unit/constants.h"

namespace paceline {
namespace {

constexpr std::array<Format, 6> formats = {Format::fp32, Format::tf32, Format::bf16,
                                           Format::fp16, Format::e4m3, Format::e5m2};

double rounded(Format format, double x) {
  return decode(format_of(format), encode(format_of(format), x));
}
NumberKind kind(Format format, double x) {
  return kind_of(format_of(format), encode(format_of(format), x));
}
// "0 10000010 0011100"
std::string text(Format format, double x) {
  const FloatFormat& f = format_of(format);
  const EncodedNumber n = encode(f, x);
  return bits_text(n.negative ? 1 : 0, 1) + " " + bits_text(n.exponent, f.exponent_bits) + " " +
         bits_text(n.mantissa, f.mantissa_bits);
}
std::uint32_t code(Format format, double x) {
  const FloatFormat& f = format_of(format);
  const EncodedNumber n = encode(f, x);
  return (std::uint32_t{n.negative} << (f.bits() - 1)) | (n.exponent << f.mantissa_bits) |
         n.mantissa;
}

TEST(FloatFormat, TheExampleOfTheWriteUp) {
  EXPECT_EQ(text(Format::fp32, 9.75), "0 10000010 00111000000000000000000");
  EXPECT_EQ(text(Format::tf32, 9.75), "0 10000010 0011100000");
  EXPECT_EQ(text(Format::bf16, 9.75), "0 10000010 0011100");
  EXPECT_EQ(text(Format::fp16, 9.75), "0 10010 0011100000");
  EXPECT_EQ(text(Format::e4m3, 9.75), "0 1010 010");  // between 9 and 10, to even
  EXPECT_EQ(text(Format::e5m2, 9.75), "0 10010 01");
  EXPECT_EQ(rounded(Format::e4m3, 9.75), 10);
}

// Compared with the processor's conversions, including subnormals and overflow.
TEST(FloatFormat, RoundsAsTheProcessorDoes) {
  for (std::uint64_t i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(i * 0x9E3779B97F4A7C15U >> 32U);
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    int exponent = 0;
    const float fraction = std::frexp(x, &exponent);
    const float near_one = std::ldexp(fraction, static_cast<int>(i % 48) - 30);
    for (const float y : {x, near_one}) {
      ASSERT_EQ(code(Format::fp32, y), std::bit_cast<std::uint32_t>(y));
      ASSERT_EQ(code(Format::bf16, y), bf16(y).bits) << y;
      ASSERT_EQ(code(Format::fp16, y), std::bit_cast<std::uint16_t>(f16(y).value)) << y;
    }
    const double wide = static_cast<double>(x) * (1 + 0x1p-30);
    ASSERT_EQ(code(Format::fp32, wide), std::bit_cast<std::uint32_t>(static_cast<float>(wide)));
  }
}

// decode() and encode() are inverse for every code.
TEST(FloatFormat, EveryCodeRoundTrips) {
  for (const Format format : formats) {
    const FloatFormat& f = format_of(format);
    if (f.bits() > 19) continue;
    for (std::uint32_t exponent = 0; exponent < 1U << f.exponent_bits; ++exponent) {
      for (std::uint32_t mantissa = 0; mantissa < 1U << f.mantissa_bits; ++mantissa) {
        const EncodedNumber n = {true, exponent, mantissa};
        if (kind_of(f, n) == NumberKind::nan) {
          ASSERT_TRUE(std::isnan(decode(f, n)));
        } else {
          ASSERT_EQ(encode(f, decode(f, n)), n) << name_of(format);
        }
      }
    }
  }
}

TEST(FloatFormat, TiesGoToEven) {
  EXPECT_EQ(rounded(Format::bf16, 257), 256);
  EXPECT_EQ(rounded(Format::bf16, 259), 260);
  EXPECT_EQ(rounded(Format::bf16, 257.0001), 258);
  EXPECT_EQ(rounded(Format::e5m2, -4.5), -4);
  EXPECT_EQ(rounded(Format::e5m2, -5.5), -6);
}

TEST(FloatFormat, LargestNumbersAndOverflow) {
  EXPECT_EQ(rounded(Format::fp16, 65519.99), 65504);
  EXPECT_EQ(rounded(Format::fp16, 65520), inf);
  EXPECT_EQ(rounded(Format::e5m2, 61439), 57344);
  EXPECT_EQ(rounded(Format::e5m2, -61440), -inf);
  EXPECT_EQ(rounded(Format::e4m3, 464), 448);
  EXPECT_EQ(kind(Format::e4m3, 464.1), NumberKind::nan);
  EXPECT_EQ(kind(Format::e4m3, inf), NumberKind::nan);
  EXPECT_EQ(text(Format::e4m3, 1e9), "0 1111 111");
}

TEST(FloatFormat, SubnormalsAndZeros) {
  EXPECT_EQ(kind(Format::fp16, 0x1p-14), NumberKind::normal);
  EXPECT_EQ(kind(Format::fp16, 0x1p-15), NumberKind::subnormal);
  EXPECT_EQ(rounded(Format::fp16, 0x1p-24), 0x1p-24);
  EXPECT_EQ(kind(Format::fp16, 0x1p-25), NumberKind::zero);  // a tie
  EXPECT_EQ(rounded(Format::fp16, 0x1.1p-25), 0x1p-24);
  EXPECT_EQ(rounded(Format::e4m3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(rounded(Format::e5m2, 0x1p-16), 0x1p-16);
  EXPECT_EQ(text(Format::fp16, -0.0), "1 00000 0000000000");
  // Rounded up to the smallest normal number.
  EXPECT_EQ(text(Format::fp16, 0x1.fffp-15), "0 00001 0000000000");
}

TEST(FloatFormat, InfinityAndNan) {
  for (const Format format : formats) {
    EXPECT_EQ(kind(format, std::nan("")), NumberKind::nan) << name_of(format);
    EXPECT_EQ(kind(format, -inf), format == Format::e4m3 ? NumberKind::nan : NumberKind::infinity);
  }
  EXPECT_EQ(text(Format::e5m2, -inf), "1 11111 00");
}

TEST(FloatFormat, UnitRoundoffsAreThoseOfTheDtypes) {
  EXPECT_EQ(format_of(Format::fp32).unit_roundoff(), unit_roundoff(Dtype::f32));
  EXPECT_EQ(format_of(Format::bf16).unit_roundoff(), unit_roundoff(Dtype::bf16));
  EXPECT_EQ(format_of(Format::fp16).unit_roundoff(), unit_roundoff(Dtype::f16));
  EXPECT_EQ(format_of(Format::e4m3).unit_roundoff(), 0x1p-4);
}

}  // namespace
}  // namespace paceline
