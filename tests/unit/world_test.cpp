#include "core/world.h"

#include <gtest/gtest.h>

#include <functional>

#include "thread_world.h"

namespace paceline {
namespace {

TEST(ErrorTest, IsOneLineEvenIfItQuotesLineBreaks) {
  EXPECT_STREQ(UsageError("'a\nb\x1b[2J\x7f' is not an experiment").what(),
               "'a\\nb\\x1b[2J\\x7f' is not an experiment");
  EXPECT_STREQ(UsageError("f\xc3\xbcnf").what(), "f\xc3\xbcnf");
}

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

}  // namespace
}  // namespace paceline
