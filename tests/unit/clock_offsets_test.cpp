#include "harness/clock_offsets.h"

#include <gtest/gtest.h>

#include <cmath>

#include "thread_world.h"

namespace paceline {
namespace {

TEST(ClockOffsetsTest, RanksOfOneClockAreWithinTheErrorThatIsStated) {
  ThreadWorld::run(3, [](World& world) {
    const std::vector<ClockOffset> offsets = clock_offsets(world);
    if (world.rank() != 0) return;
    ASSERT_EQ(offsets.size(), 3U);
    EXPECT_EQ(offsets[0].seconds, 0);
    EXPECT_EQ(offsets[0].error, 0);
    for (std::size_t r = 1; r < offsets.size(); ++r) {
      EXPECT_GT(offsets[r].error, 0);
      EXPECT_LE(std::abs(offsets[r].seconds), offsets[r].error);
    }
  });
}

}  // namespace
}  // namespace paceline
