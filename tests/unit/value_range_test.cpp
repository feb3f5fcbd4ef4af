#include "measure/value_range.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/units.h"

namespace paceline {
namespace {

using Texts = std::vector<std::string>;

constexpr Range wide = {0, 0x1p62};
constexpr Range with_sign = {-1e3, 1e3};

Texts integers(std::string_view text) { return values_of_range(text, ValueType::integer, wide); }
Texts reals(std::string_view text, const Range& limits = wide) {
  return values_of_range(text, ValueType::real, limits);
}
Texts sizes(std::string_view text) { return values_of_range(text, ValueType::size, {}); }

std::string range_refusal(std::string_view text, ValueType type, const Range& limits = wide) {
  try {
    (void)values_of_range(text, type, limits);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

bool mentions(const std::string& message, std::string_view what) {
  return message.find(what) != std::string::npos;
}

TEST(ValueRange, WholeNumbers) {
  EXPECT_EQ(integers("1..5"), (Texts{"1", "2", "3", "4", "5"}));
  EXPECT_EQ(integers("3..3"), (Texts{"3"}));
  EXPECT_EQ(integers("0..2"), (Texts{"0", "1", "2"}));
  EXPECT_EQ(integers("128..1024*2"), (Texts{"128", "256", "512", "1024"}));
  EXPECT_EQ(integers("64..200+64"), (Texts{"64", "128", "192"}));
  EXPECT_EQ(integers("7"), (Texts{"7"}));
  EXPECT_EQ(integers("1..10000").size(), 10'000U);
}

TEST(ValueRange, TheLastValueIsIncludedWhereItIsHit) {
  EXPECT_EQ(integers("1..100*10").back(), "100");
  EXPECT_EQ(integers("1..99*10").back(), "10");
  EXPECT_EQ(sizes("1KiB..1GiB*2").size(), 21U);
  EXPECT_EQ(reals("0.1..1+0.1").size(), 10U);
  EXPECT_EQ(reals("0.1..1+0.1").at(2), "0.3");
  EXPECT_EQ(reals("0.001..1*10").back(), "1");
}

TEST(ValueRange, SizesHaveUnits) {
  EXPECT_EQ(sizes("1KiB..4KiB*2"), (Texts{"1024", "2048", "4096"}));
  EXPECT_EQ(sizes("1MB..2MB+0.5MB"), (Texts{"1000000", "1500000", "2000000"}));
}

TEST(ValueRange, RealNumbers) {
  EXPECT_EQ(reals("1..2+0.25"), (Texts{"1", "1.25", "1.5", "1.75", "2"}));
  EXPECT_EQ(reals("1..3*1.5"), (Texts{"1", "1.5", "2.25"}));
  EXPECT_EQ(reals("1..2e+3*1e1"), (Texts{"1", "10", "100", "1000"}));
  EXPECT_EQ(reals("-0.3..0.2+0.1", with_sign), (Texts{"-0.3", "-0.2", "-0.1", "0", "0.1", "0.2"}));
  EXPECT_EQ(reals("-0.3..0+0.1", with_sign), (Texts{"-0.3", "-0.2", "-0.1", "0"}));
}

TEST(ValueRange, NonNumericTypesHaveNoRanges) {
  EXPECT_EQ(values_of_range("../a..b", ValueType::text, {}), (Texts{"../a..b"}));
  EXPECT_EQ(values_of_range("1..5", ValueType::name, {}), (Texts{"1..5"}));
}

TEST(ValueRange, RefusalsSayWhatIsWrong) {
  for (const char* text : {"..", "1..", "..5", "1..5*", "1..5+", "..*"}) {
    EXPECT_TRUE(mentions(range_refusal(text, ValueType::integer), "is not a range")) << text;
  }
  for (const ValueType type : {ValueType::integer, ValueType::real, ValueType::size}) {
    EXPECT_TRUE(mentions(range_refusal("5..1", type), "descends"));
    EXPECT_TRUE(mentions(range_refusal("1..5*1", type), "above 1"));
    EXPECT_TRUE(mentions(range_refusal("1..5*0", type), "above 1"));
    EXPECT_TRUE(mentions(range_refusal("0..8*2", type), "0,1..8*2"));
    EXPECT_TRUE(mentions(range_refusal("1..5+0", type), "above 0"));
    EXPECT_TRUE(mentions(range_refusal("1..10001", type), "more than 10000 values"));
    EXPECT_NE(range_refusal("1..2..3", type), "");
    EXPECT_NE(range_refusal("a..b", type), "");
    EXPECT_NE(range_refusal("1..8*-2", type), "");
    EXPECT_NE(range_refusal("1..8*2*2", type), "");
  }
  EXPECT_TRUE(mentions(range_refusal("-8..-1*2", ValueType::real, with_sign), "above 0"));
  EXPECT_TRUE(mentions(range_refusal("0..4", ValueType::integer, {1, 8}), "use 1 to 8"));
  EXPECT_TRUE(mentions(range_refusal("1..9", ValueType::integer, {1, 8}), "use 1 to 8"));
  EXPECT_TRUE(mentions(range_refusal("1..9", ValueType::real, {1, 8}), "use 1 to 8"));
  EXPECT_TRUE(mentions(range_refusal("1..8*1.5", ValueType::integer), "whole number"));
}

TEST(ValueRange, NothingOverflows) {
  const std::string most = std::to_string(std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(sizes("1.." + most + "*2").size(), 63U);
  EXPECT_EQ(sizes("1.." + most + "+" + most), (Texts{"1"}));
  EXPECT_NE(range_refusal("1..99999999999999999999*2", ValueType::size), "");
  EXPECT_NE(range_refusal("1..1e300+1e-300", ValueType::real, {0, 1e308}), "");
}

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
