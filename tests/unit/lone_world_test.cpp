#include "harness/lone_world.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

TEST(LoneWorld, IsAWorldOfOneRank) {
  LoneWorld world;
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.local_size(), 1);
  EXPECT_GE(world.usable_cores(), 1);
  EXPECT_FALSE(world.host().empty());
  EXPECT_EQ(world.agree(Status::oom), Status::oom);
  EXPECT_EQ(world.max(2.5), 2.5);
  EXPECT_EQ(world.broadcast("mine", 0), "mine");
  EXPECT_EQ(world.gather("mine"), std::vector<std::string>{"mine"});
  EXPECT_EQ(world.split(-1, 0), nullptr);
  EXPECT_EQ(world.split(0, 0)->size(), 1);
  EXPECT_THROW(collectively(world, [] { throw EnvironmentError("no GPU"); }), Error);
}

}  // namespace
}  // namespace paceline
