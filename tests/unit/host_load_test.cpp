#include "harness/host_load.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>

#include "temp_folder.h"

namespace paceline {
namespace {

TEST(LoadOfOthers, IsWhatTheRanksOfAHostLeaveOfTheLoadOfTheirCores) {
  const RankLoad first{.seconds = 10, .by_process = 20, .busy = {{0, 25}, {1, 25}}};
  const RankLoad second{.seconds = 10, .by_process = 15, .busy = {{0, 25}, {1, 25}}};
  EXPECT_EQ(load_of_others({"a", "a"}, {first, second}), 1.5);
  EXPECT_EQ(load_of_others({"a"}, {{.seconds = 10, .by_process = 51, .busy = {{0, 50}}}}), 0);
}

// Each rank may be bound to cores of its own.
TEST(LoadOfOthers, IsOfAllCoresOfTheRanksOfAHost) {
  const RankLoad first{.seconds = 10, .by_process = 8, .busy = {{0, 9}, {1, 5}}};
  const RankLoad second{.seconds = 10, .by_process = 9, .busy = {{1, 5}, {7, 8}}};
  EXPECT_EQ(load_of_others({"a", "a"}, {first, second}), 0.5);
}

TEST(LoadOfOthers, IsThatOfTheBusiestHost) {
  const RankLoad calm{.seconds = 10, .by_process = 28, .busy = {{0, 30}}};
  const RankLoad busy{.seconds = 10, .by_process = 20, .busy = {{0, 40}}};
  EXPECT_EQ(load_of_others({"a", "b"}, {calm, busy}), 2);
  EXPECT_EQ(load_of_others({"a", "b"}, {busy, calm}), 2);
}

TEST(LoadOfOthers, IsUnknownBelowASecond) {
  const RankLoad brief{.seconds = 0.99, .by_process = 1, .busy = {{0, 50}}};
  const RankLoad enough{.seconds = 1, .by_process = 1, .busy = {{0, 3}}};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {brief})));
  EXPECT_EQ(load_of_others({"a", "b"}, {brief, enough}), 2);
  EXPECT_TRUE(std::isnan(load_of_others({}, {})));  // on other ranks than rank 0
}

TEST(LoadOfOthers, IsUnknownWhereTheHostsLoadCannotBeRead) {
  const RankLoad unreadable{.seconds = 10, .by_process = 1, .busy = {}};
  const RankLoad readable{.seconds = 10, .by_process = 1, .busy = {{0, 11}}};
  EXPECT_TRUE(std::isnan(load_of_others({"a"}, {unreadable})));
  EXPECT_EQ(load_of_others({"a", "b"}, {unreadable, readable}), 1);
}

TEST(BusySeconds, AreThoseOfTheCoresThatAreAskedFor) {
  const TempFolder temp;
  EXPECT_TRUE(busy_seconds({0}, temp.path()).empty());
  temp.write("proc/stat",
             "cpu  900 900 900 900 900 900 900 0 0 0\n"
             "cpu0 1000 200 30 7000 7000 4 600 5 5 5\n"
             "cpu1 900 0 0 7000 7000 0 0 0 0 0\n"
             "cpu11 100 0 0 7000 7000 0 0 0 0 0\n"
             "intr 12345 0 0\n"
             "ctxt 1");
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(busy_seconds({0, 11, 12}, temp.path()),
            (CoreSeconds{{0, 1834 / ticks}, {11, 100 / ticks}}));
}

}  // namespace
}  // namespace paceline
