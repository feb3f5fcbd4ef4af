#include "core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "core/precision.h"

namespace paceline {
namespace {

float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint16_t bits_of(f16 x) { return std::bit_cast<std::uint16_t>(x); }

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(bf16(1.0F).bits, 0x3f80);
  EXPECT_EQ(bf16(-2.0F).bits, 0xc000);
  EXPECT_EQ(bf16(float_of(0x3f807fff)).bits, 0x3f80);  // below the tie
  EXPECT_EQ(bf16(float_of(0x3f808000)).bits, 0x3f80);  // a tie goes down to even
  EXPECT_EQ(bf16(float_of(0x3f808001)).bits, 0x3f81);  // above the tie
  EXPECT_EQ(bf16(float_of(0x3f818000)).bits, 0x3f82);  // a tie goes up to even
  EXPECT_EQ(bf16(float_of(0xbf818000)).bits, 0xbf82);
  EXPECT_EQ(bf16(float_of(0x3fffffff)).bits, 0x4000);  // carries into the exponent
}

TEST(Bf16, SpecialValues) {
  EXPECT_EQ(bf16(0.0F).bits, 0x0000);
  EXPECT_EQ(bf16(-0.0F).bits, 0x8000);
  EXPECT_EQ(bf16(HUGE_VALF).bits, 0x7f80);
  EXPECT_EQ(bf16(-HUGE_VALF).bits, 0xff80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7f80);  // rounds to infinity
  EXPECT_EQ(bf16(float_of(0x00000001)).bits, 0x0000);               // the smallest float
  EXPECT_EQ(bf16(float_of(0x00018000)).bits, 0x0002);               // denormals round alike
}

TEST(Bf16, NaNStaysNaN) {
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(NAN))));
  // The payload is in the lower half only: truncated, this NaN would be an infinity.
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(float_of(0x7f800001)))));
  // Rounded up, this NaN would carry into the sign.
  EXPECT_TRUE(std::isnan(static_cast<float>(bf16(float_of(0x7fffffff)))));
  EXPECT_EQ(bf16(float_of(0xffffffff)).bits & 0x8000, 0x8000);
}

TEST(Bf16, EveryValueSurvives) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float x = float_of(bits << 16U);
    if (std::isnan(x)) continue;
    ASSERT_EQ(bf16(x).bits, bits);
    ASSERT_EQ(static_cast<float>(bf16(x)), x);
  }
}

TEST(F16, RoundsToNearestEven) {
  EXPECT_EQ(bits_of(f16(1.0F)), 0x3c00);
  EXPECT_EQ(bits_of(f16(1 + 0x1p-11F)), 0x3c00);             // a tie goes down to even
  EXPECT_EQ(bits_of(f16(1 + 0x1p-11F + 0x1p-20F)), 0x3c01);  // above the tie
  EXPECT_EQ(bits_of(f16(1 + 3 * 0x1p-11F)), 0x3c02);         // a tie goes up to even
  EXPECT_EQ(bits_of(f16(0.01F)), 0x211f);                    // 0.0100021, as in the handout
  EXPECT_EQ(static_cast<float>(f16(0.1F)), 0.0999755859375F);
}

TEST(F16, SpecialValues) {
  EXPECT_EQ(bits_of(f16(65504.0F)), 0x7bff);  // the largest
  EXPECT_EQ(bits_of(f16(65519.0F)), 0x7bff);
  EXPECT_EQ(bits_of(f16(65520.0F)), 0x7c00);  // rounds to infinity
  EXPECT_EQ(bits_of(f16(HUGE_VALF)), 0x7c00);
  EXPECT_EQ(bits_of(f16(-HUGE_VALF)), 0xfc00);
  EXPECT_EQ(bits_of(f16(-0.0F)), 0x8000);
  EXPECT_EQ(bits_of(f16(0x1p-24F)), 0x0001);  // the smallest denormal
  EXPECT_EQ(bits_of(f16(0x1p-25F)), 0x0000);  // a tie goes down to even
  EXPECT_TRUE(std::isnan(static_cast<float>(f16(NAN))));
}

// 1 + u is halfway between 1 and the next number.
TEST(Dtype, UnitRoundoffIsHalfTheStepAtOne) {
  for (const Dtype d : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    dispatch_floating(d, [&]<class T>() {
      const auto rounded = [](double x) {
        return static_cast<double>(static_cast<float>(static_cast<T>(static_cast<float>(x))));
      };
      const double u = unit_roundoff(d);
      EXPECT_EQ(rounded(1 + u), 1) << name_of(d);
      EXPECT_EQ(rounded(1 + 2 * u), 1 + 2 * u) << name_of(d);
    });
  }
  EXPECT_EQ(unit_roundoff(Dtype::f64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(unit_roundoff(Dtype::i32), 0);
}

TEST(Precision, OnlyTf32RoundsOperandsOfFloat32Products) {
  for (const auto* name : {"fp64", "fp32", "bf16", "fp16"}) {
    EXPECT_EQ(precision_named(name).gemm, GemmMath::exact) << name;
  }
  EXPECT_EQ(precision_named("tf32").gemm, GemmMath::tf32);
  EXPECT_EQ(precision_named("tf32").compute, Dtype::f32);
}

}  // namespace
}  // namespace paceline
