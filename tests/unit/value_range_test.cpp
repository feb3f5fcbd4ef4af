#include "measure/value_range.h"

#include <gtest/gtest.h>

#include <limits>

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

}  // namespace
}  // namespace paceline
