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

TEST(ScopeTest, AnOperationCountsItsMemoryToTheRegionAroundIt) {
  ScopeStack stack;
  const Scope block(stack, "block 3");
  const Scope matmul(stack, "matmul", {.flops = 8});
  EXPECT_EQ(stack.path(), "block 3");
  EXPECT_EQ(stack.paths().back().text, "block 3/matmul");
}

TEST(ScopeTest, EveryPathHasOneNumberHoweverItIsReached) {
  ScopeStack stack;
  const auto visit = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      const Scope outer(stack, name);
      const Scope inner(stack, "ffn");
    }
  };
  visit({"block 0", "block 1", "block 2"});
  const std::size_t count = stack.paths().size();
  EXPECT_EQ(count, 7U);  // three blocks with one ffn each, and the root
  visit({"block 2", "block 1", "block 0", "block 0", "block 2"});
  EXPECT_EQ(stack.paths().size(), count);
}

class Listener final : public ScopeListener {
 public:
  void entered(ScopeId scope, const OpWork* work) override {
    heard.push_back((work == nullptr ? "region " : "operation ") + std::to_string(scope));
  }
  void left() override { heard.emplace_back("left"); }

  std::vector<std::string> heard;
};

TEST(ScopeTest, NotifiesAListenerUntilItIsReset) {
  ScopeStack stack;
  Listener listener;
  stack.set_listener(&listener);
  {
    const Scope block(stack, "block 0");
    const Scope add(stack, "add", {.bytes = 4});
  }
  stack.set_listener(nullptr);
  { const Scope block(stack, "block 0"); }
  EXPECT_EQ(listener.heard, (std::vector<std::string>{"region 1", "operation 2", "left", "left"}));
}

}  // namespace
}  // namespace paceline
