#include "core/world.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "thread_world.h"

namespace paceline {
namespace {

Error error_of(World& world, const std::function<void()>& work) {
  try {
    collectively(world, work);
  } catch (const Error& error) {
    return error;
  }
  return {ExitCode::done, ""};
}

TEST(CollectivelyTest, ReturnsWhenNoRankThrows) {
  ThreadWorld::run(3,
                   [](World& world) { EXPECT_EQ(error_of(world, [] {}).code(), ExitCode::done); });
}

TEST(CollectivelyTest, AnErrorOfOneRankIsThrownOnAllRanksAndNamesIt) {
  ThreadWorld::run(3, [](World& world) {
    const Error error = error_of(world, [&] {
      if (world.rank() == 2) throw EnvironmentError("no GPU");
    });
    EXPECT_EQ(error.code(), ExitCode::environment);
    EXPECT_STREQ(error.what(), "no GPU (rank 2)");
  });
}

TEST(CollectivelyTest, TheWorstErrorWins) {
  ThreadWorld::run(4, [](World& world) {
    const Error error = error_of(world, [&] {
      if (world.rank() == 0) throw UsageError("small");
      if (world.rank() == 3) throw StoppedError("large");
    });
    EXPECT_EQ(error.code(), ExitCode::stopped);
    EXPECT_STREQ(error.what(), "large (rank 3)");
  });
}

TEST(CollectivelyTest, AnErrorOfAllRanksIsThrownAsItIs) {
  ThreadWorld::run(2, [](World& world) {
    const Error error = error_of(world, [] { throw UsageError("--size: no"); });
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "--size: no");
  });
}

// "<rank>/<size>:" and the members' ranks in `world`, in the group's order; empty without a group.
std::string group_of(World& world, int color, int key) {
  const std::unique_ptr<World> group = world.split(color, key);
  if (!group) return "";
  std::string text;
  for (const std::string& rank : group->gather(std::to_string(world.rank()))) text += " " + rank;
  return fmt::format("{}/{}:{}", group->rank(), group->size(), group->broadcast(text, 0));
}

TEST(SplitTest, AGroupIsOfOneColorInTheOrderOfKeys) {
  ThreadWorld::run(6, [](World& world) {
    const int rank = world.rank();
    const int row = rank / 3;
    const int column = rank % 3;
    EXPECT_EQ(group_of(world, row, rank),
              fmt::format("{}/3: {} {} {}", column, 3 * row, 3 * row + 1, 3 * row + 2));
    EXPECT_EQ(group_of(world, column, -rank),
              fmt::format("{}/2: {} {}", 1 - row, 3 + column, column));
  });
}

TEST(SplitTest, EqualKeysLeaveTheOrderOfRanks) {
  ThreadWorld::run(3, [](World& world) {
    const int last_comes_first = world.rank() == 2 ? -1 : 0;
    EXPECT_EQ(group_of(world, 0, 0), fmt::format("{}/3: 0 1 2", world.rank()));
    EXPECT_EQ(group_of(world, 7, last_comes_first),
              fmt::format("{}/3: 2 0 1", (world.rank() + 1) % 3));
  });
}

TEST(SplitTest, ANegativeColorIsInNoGroup) {
  ThreadWorld::run(4, [](World& world) {
    const bool inside = world.rank() % 2 == 1;
    EXPECT_EQ(group_of(world, inside ? 0 : -1, 0),
              inside ? fmt::format("{}/2: 1 3", world.rank() / 2) : "");
  });
}

TEST(SplitTest, AGroupGoesOnWithoutTheOthersAndMaySplitAgain) {
  ThreadWorld::run(4, [](World& world) {
    const std::unique_ptr<World> half = world.split(world.rank() / 2, 0);
    if (world.rank() >= 2) return;
    EXPECT_EQ(half->max(world.rank()), 1);
    EXPECT_EQ(half->agree(world.rank() == 1 ? Status::oom : Status::ok), Status::oom);
    EXPECT_EQ(group_of(*half, half->rank(), 0), fmt::format("0/1: {}", half->rank()));
  });
}

TEST(StatusTest, NamesGoBothWays) {
  for (const Status s : {Status::ok, Status::skipped, Status::oom, Status::diverged,
                         Status::mismatch, Status::stopped}) {
    EXPECT_EQ(enum_named<Status>(name_of(s)), s);
  }
  EXPECT_THROW((void)enum_named<Status>("fine"), UsageError);
}

}  // namespace
}  // namespace paceline
