#include <gtest/gtest.h>

#include <sstream>

#include "core/text.h"
#include "record/console.h"

namespace paceline {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST(TextTable, AnEmptyCellIsADash) {
  EXPECT_EQ(text_table({}, {{"sync", false, {"flat"}}, {"bucket_mb", true, {""}}}, {""}, 100),
            "sync  bucket_mb\n"
            "flat          -\n");
}

TEST(TextTable, HeadsAreBrokenWhereTheTableIsTooWide) {
  const std::string wide(70, 'x');
  const std::vector<TextColumn> columns = {{"a", false, {wide}},
                                           {"communication_exposed [ms]", true, {"1.5"}},
                                           {"step [s]", true, {"20"}}};
  EXPECT_EQ(text_table({}, columns, {""}, 100), std::string(72, ' ') + "communication  step\n" +  //
                                                    "a" + std::string(71, ' ') +
                                                    " exposed [ms]   [s]\n" +  //
                                                    wide + "            1.5    20\n");
  EXPECT_EQ(text_table({}, columns, {""}, 160),
            "a" + std::string(71, ' ') + "communication_exposed [ms]  step [s]\n" +  //
                wide + std::string(25, ' ') + "1.5        20\n");
}

// A key of 4 characters, then columns of 45, 10 and 12 characters.
TEST(TextTable, BreaksIntoBlocksThatBeginWithTheFactors) {
  const std::vector<FactorTexts> factors = {{{"key", "1"}}, {{"key", "1000"}}, {{"key", "3"}}};
  const std::vector<TextColumn> columns = {{std::string(45, 'a'), true, {"a1", "", "a3"}},
                                           {std::string(10, 'b'), true, {"b1", "", "b3"}},
                                           {std::string(12, 'c'), true, {"c1", "", "c3"}}};
  const auto gap = [](std::size_t n) { return std::string(n, ' '); };
  EXPECT_EQ(text_table(factors, columns, {"", "oom: no room", ""}, 63),
            " key  " + std::string(45, 'a') + "  bbbbbbbbbb\n" +  //
                "   1  " + gap(43) + "a1          b1\n" +         //
                "1000  oom: no room\n" +                          //
                "   3  " + gap(43) + "a3          b3\n" +         //
                "\n" +                                            //
                " key  cccccccccccc\n" +                          //
                "   1            c1\n" +                          //
                "1000             -\n" +                          //
                "   3            c3\n");
}

TEST(TextTable, IsAsWideAsItMayBe) {
  std::vector<TextColumn> columns;
  for (int i = 0; i < 30; ++i) {
    columns.push_back({"column" + std::to_string(i), true, {std::to_string(i)}});
  }
  for (const std::size_t width : {80U, 100U, 160U}) {
    const std::string text = text_table({{{"key", "k"}}}, columns, {""}, width);
    EXPECT_LE(widest_line(text), width);
    EXPECT_GT(widest_line(text), width - 10);
    for (const TextColumn& column : columns) {
      EXPECT_NE(text.find(column.head), std::string::npos) << column.head;
    }
  }
}

TEST(TextTable, AReasonTakesThePlaceOfTheMissingCells) {
  EXPECT_EQ(text_table({}, {{"verdict", false, {"worse", "gone"}}, {"A", true, {"1", ""}}},
                       {"", "oom: no room"}, 100),
            "verdict  A\n"
            "worse    1\n"
            "gone     oom: no room\n");
  EXPECT_EQ(text_table({}, {}, {"oom: no room"}, 100), "oom: no room\n");
}

TEST(TextTable, ConstantFactorsAreWrappedBetweenThem) {
  FactorTexts factors;
  for (int i = 0; i < 20; ++i) factors.emplace_back("factor_" + std::to_string(i), "a b");
  const std::string text = text_table({factors}, {}, {"x"}, 60);
  EXPECT_LE(widest_line(text), 60U);
  EXPECT_NE(text.find("factor_3 a b,\nfactor_4 a b,"), std::string::npos) << text;
  const auto first_line = [](std::size_t length) {
    return factors_line({{"a", std::string(length, 'x')}, {"b", "y"}, {"c", "z"}}).find('\n');
  };
  EXPECT_EQ(first_line(92), 100U);  // "a xx...x, b y,"
  EXPECT_EQ(first_line(93), 96U);   // "a xx...x,"
}

TEST(Wrapped, FillsLinesWithWholeWords) {
  EXPECT_EQ(wrapped("aa bb\ncc  dd", 5), "aa bb\ncc dd");
  EXPECT_EQ(wrapped("aaaaaaa b c", 5), "aaaaaaa\nb c");
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("aa\nbb cc", 5), "aa\nbb cc");
}

TEST(Utf8, CodePointsOfEveryLength) {
  for (const char* text :
       {"", "plain\n", "\xc2\x80\xdf\xbf", "\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf",
        "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", "M\xc3\xa4rz"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
}

TEST(Utf8, OtherBytes) {
  for (const char* text : {"\x80", "\xff", "a\xc3", "\xc3z", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf",
                           "\xed\xa0\x80", "\xe2\x82", "\xe2\x82z", "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf1\x80\x80z"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace
}  // namespace paceline
