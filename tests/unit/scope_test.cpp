#include "core/scope.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(ScopeTest, NamesNestAndEnd) {
  ScopeStack stack;
  EXPECT_EQ(stack.path(), "");
  {
    const Scope block(stack, "block 3");
    EXPECT_EQ(stack.path(), "block 3");
    {
      const Scope attention(stack, "attention");
      EXPECT_EQ(stack.path(), "block 3/attention");
    }
    const Scope ffn(stack, "ffn");
    EXPECT_EQ(stack.path(), "block 3/ffn");
  }
  EXPECT_EQ(stack.path(), "");
}

}  // namespace
}  // namespace paceline
