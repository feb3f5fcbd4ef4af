#include "core/text.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

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
