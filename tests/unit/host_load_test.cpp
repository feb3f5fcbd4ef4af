#include "harness/host_load.h"

#include <gtest/gtest.h>

#include <cmath>

namespace paceline {
namespace {

TEST(LoadOfOthers, IsWhatTheRanksOfAHostLeaveOfItsLoad) {
  const RankLoad first{.seconds = 10, .busy = 50, .by_process = 20};
  const RankLoad second{.seconds = 10, .busy = 50, .by_process = 15};
  EXPECT_EQ(load_of_others({"a", "a"}, {first, second}), 1.5);
  EXPECT_EQ(load_of_others({"a"}, {{.seconds = 10, .busy = 50, .by_process = 51}}), 0);
}

TEST(LoadOfOthers, IsThatOfTheBusiestHost) {
  const RankLoad calm{.seconds = 10, .busy = 30, .by_process = 28};
  const RankLoad busy{.seconds = 10, .busy = 40, .by_process = 20};
  EXPECT_EQ(load_of_others({"a", "b"}, {calm, busy}), 2);
  EXPECT_EQ(load_of_others({"a", "b"}, {busy, calm}), 2);
}

TEST(LoadOfOthers, IsUnknownBelowASecond) {
  const RankLoad brief{.seconds = 0.99, .busy = 50, .by_process = 1};
  const RankLoad enough{.seconds = 1, .busy = 3, .by_process = 1};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {brief})));
  EXPECT_EQ(load_of_others({"a", "b"}, {brief, enough}), 2);
  EXPECT_TRUE(std::isnan(load_of_others({}, {})));  // on other ranks than rank 0
}

TEST(LoadOfOthers, IsUnknownWhereTheHostsLoadCannotBeRead) {
  const RankLoad unreadable{.seconds = 10, .busy = std::nan(""), .by_process = 1};
  const RankLoad readable{.seconds = 10, .busy = 11, .by_process = 1};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {unreadable})));
  EXPECT_EQ(load_of_others({"a", "b"}, {unreadable, readable}), 1);
}

}  // namespace
}  // namespace paceline
