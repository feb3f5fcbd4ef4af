#include "core/error.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ErrorTest, IsOneLineEvenIfItQuotesLineBreaks) {
  EXPECT_STREQ(UsageError("'a\nb\x1b[2J\x7f' is not an experiment").what(),
               "'a\\nb\\x1b[2J\\x7f' is not an experiment");
  EXPECT_STREQ(UsageError("f\xc3\xbcnf").what(), "f\xc3\xbcnf");
}

}  // namespace
}  // namespace paceline
