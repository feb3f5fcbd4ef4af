#include <gtest/gtest.h>

#include "core/clock.h"
#include "harness/gather.h"
#include "thread_world.h"

namespace paceline {
namespace {

// The offset of this rank's clock, ahead of the host's.
thread_local double ahead = 0;
double skewed() { return host_seconds() + ahead; }

TEST(ClockOffsetsTest, AnOffsetIsHowFarARankIsAhead) {
  ThreadWorld::run(3, [](World& world) {
    ahead = 100.0 * world.rank() + 7;
    const std::vector<ClockOffset> offsets = clock_offsets(world, skewed);
    if (world.rank() != 0) return;
    ASSERT_EQ(offsets.size(), 3U);
    EXPECT_EQ(offsets[0].seconds, 0);
    EXPECT_EQ(offsets[0].error, 0);
    for (std::size_t r = 1; r < offsets.size(); ++r) {
      EXPECT_NEAR(offsets[r].seconds, 100.0 * static_cast<double>(r), offsets[r].error);
      EXPECT_LT(offsets[r].error, 10);
    }
  });
}

}  // namespace
}  // namespace paceline
