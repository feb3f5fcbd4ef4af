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

}  // namespace
}  // namespace paceline
