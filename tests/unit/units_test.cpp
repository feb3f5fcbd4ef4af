#include "core/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"

namespace paceline {
namespace {

TEST(ParseBytes, UnitsArePowersOfTenOrOfTwo) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("512B"), 512);
  EXPECT_EQ(parse_bytes("3KB"), 3'000);
  EXPECT_EQ(parse_bytes("25 MB"), 25'000'000);
  EXPECT_EQ(parse_bytes("1GB"), 1'000'000'000);
  EXPECT_EQ(parse_bytes("2TB"), 2'000'000'000'000);
  EXPECT_EQ(parse_bytes("1KiB"), 1024);
  EXPECT_EQ(parse_bytes("1MiB"), 1'048'576);
  EXPECT_EQ(parse_bytes("1.5GiB"), 1'610'612'736);
  EXPECT_EQ(parse_bytes("1TiB"), 1'099'511'627'776);
}

TEST(ParseBytes, FractionsAreExactAndRoundedDown) {
  EXPECT_EQ(parse_bytes("1.1GB"), 1'100'000'000);
  EXPECT_EQ(parse_bytes("0.3KB"), 300);
  EXPECT_EQ(parse_bytes("1.9"), 1);
  EXPECT_EQ(parse_bytes("0.001KiB"), 1);  // 1.024
  EXPECT_EQ(parse_bytes("0.333333333333333333333333KB"), 333);
  EXPECT_EQ(parse_bytes("0.9999999999999999999999999B"), 0);
}

TEST(ParseBytes, RefusesTextsThatAreNoSizes) {
  for (const char* text : {"", " ", "GB", "-1", "+1", "1e6", "1.", ".5", "1 2", "1mb", "1Mb", "1XB",
                           "nan", "inf", "0x10", "1GB ", " 1GB", "1,5GB", "1GBs"}) {
    EXPECT_THROW((void)parse_bytes(text), UsageError) << "'" << text << "'";
  }
}

TEST(ParseBytes, RefusesOverflow) {
  EXPECT_EQ(parse_bytes("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_THROW((void)parse_bytes("9223372036854775808"), UsageError);
  EXPECT_THROW((void)parse_bytes("99999999999999999999999"), UsageError);
  EXPECT_THROW((void)parse_bytes("9223373TB"), UsageError);
  EXPECT_EQ(parse_bytes("9223372TB"), 9'223'372'000'000'000'000);
}

TEST(ParseBytes, ErrorNamesTheTextAndWhatWouldBeRight) {
  try {
    (void)parse_bytes("12 XB");
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "'12 XB' is not a size: write a number with B, KB, MB, GB or TB (powers of ten) or "
              "with KiB, MiB, GiB or TiB (powers of two), such as 25MB");
  }
}

TEST(BytesText, ThreeSignificantDigits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(512), "512 B");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1.5), "1.50 B");
  EXPECT_EQ(bytes_text(1000), "1.00 KB");
  EXPECT_EQ(bytes_text(128.6e6), "129 MB");
  EXPECT_EQ(bytes_text(999.4e6), "999 MB");
  EXPECT_EQ(bytes_text(999.6e6), "1.00 GB");
  EXPECT_EQ(bytes_text(25e6), "25.0 MB");
  EXPECT_EQ(bytes_text(-2.5e9), "-2.50 GB");
  EXPECT_EQ(bytes_text(3e18), "3000 PB");
  EXPECT_EQ(bytes_text(std::nan("")), "-");
}

TEST(CountText, HasPrefixesOnly) {
  EXPECT_EQ(count_text(12), "12");
  EXPECT_EQ(count_text(1234), "1.23 k");
  EXPECT_EQ(count_text(128'625'408), "129 M");
  EXPECT_EQ(count_text(1.234e12), "1.23 T");
  EXPECT_EQ(count_text(2.5e15), "2.50 P");
}

TEST(NumberText, SignificantDigitsWithoutExponent) {
  EXPECT_EQ(number_text(8.1234), "8.12");
  EXPECT_EQ(number_text(9.999), "10.0");
  EXPECT_EQ(number_text(0.0123456), "0.0123");
  EXPECT_EQ(number_text(1234.5), "1234");
  EXPECT_EQ(number_text(123456.7, 4), "123457");
  EXPECT_EQ(number_text(0.1 + 0.2, 4), "0.3000");
  EXPECT_EQ(number_text(-8.1), "-8.10");
  EXPECT_EQ(number_text(0), "0");
  EXPECT_EQ(number_text(1e-5), "1.00e-05");
  EXPECT_EQ(number_text(1e15), "1.00e+15");
  EXPECT_EQ(number_text(std::nan("")), "-");
  EXPECT_EQ(number_text(-std::numeric_limits<double>::infinity()), "-inf");
}

// Two names of 0 would be two cases.
TEST(ParseReal, MinusZeroIsZeroUnlessNegativeValuesAreAllowed) {
  EXPECT_FALSE(std::signbit(parse_real("-0", 0, 1)));
  EXPECT_FALSE(std::signbit(parse_real("-0.0e3", 0, 1)));
  EXPECT_TRUE(std::signbit(parse_real("-0", -1, 1)));
  EXPECT_EQ(parse_real("-0.5", -1, 1), -0.5);
  EXPECT_EQ(parse_real("0.5", 0, 1), 0.5);
}

TEST(SecondsText, ThreeDigitsWithAFittingUnit) {
  EXPECT_EQ(seconds_text(8.123), "8.12 s");
  EXPECT_EQ(seconds_text(0.0031), "3.10 ms");
  EXPECT_EQ(seconds_text(0.99), "990 ms");
  EXPECT_EQ(seconds_text(0.9999), "1.00 s");
  EXPECT_EQ(seconds_text(42e-6), "42.0 us");
  EXPECT_EQ(seconds_text(3e-9), "3.00 ns");
  EXPECT_EQ(seconds_text(3e-10), "0.300 ns");
  EXPECT_EQ(seconds_text(1234.5), "1234 s");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(std::nan("")), "-");
}

TEST(DisplayUnit, SuitsTheMiddleValue) {
  EXPECT_EQ(display_unit_for({1e-3, 2e-3, 5}, "s").unit, "ms");
  EXPECT_EQ(display_unit_for({1, 2, 5}, "s").unit, "s");
  EXPECT_EQ(display_unit_for({3e-6}, "s").unit, "us");
  EXPECT_EQ(display_unit_for({3e-12}, "s").unit, "ns");
  EXPECT_EQ(display_unit_for({std::nan("")}, "s").unit, "s");
  EXPECT_EQ(display_unit_for({5e9, 2e6, 1e9}, "bytes").unit, "GB");
  EXPECT_EQ(display_unit_for({0}, "bytes").unit, "B");
  EXPECT_EQ(display_unit_for({2e12}, "FLOP/s").unit, "TFLOP/s");
  EXPECT_EQ(display_unit_for({2e5}, "1/s").unit, "1/s");
  EXPECT_EQ(display_unit_for({2e12}, "FLOP/s").text(2.5e12), "2.500");
}

}  // namespace
}  // namespace paceline
