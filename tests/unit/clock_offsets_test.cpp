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

// Every rank reads its clock three times a round: rank 0 asks in the first reading and has the
// answer, another rank's second reading, in the third: after half a second in the fourth round, and
// after eight in the others, of which the other rank had the question for six.
thread_local int readings = 0;
double scripted() {
  constexpr int fast_round = 3;
  const int round = readings / 3;
  const int reading = readings++ % 3;
  const bool fast = round == fast_round;
  const double began = 100.0 * round + ahead;
  if (reading == 0) return began;
  return began + (reading == 1 ? (fast ? 0.25 : 7) : (fast ? 0.5 : 8));
}

TEST(ClockOffsetsTest, TheFastestRoundCounts) {
  ThreadWorld::run(2, [](World& world) {
    ahead = 50.0 * world.rank();
    readings = 0;
    const std::vector<ClockOffset> offsets = clock_offsets(world, scripted);
    if (world.rank() != 0) return;
    EXPECT_EQ(offsets.back().seconds, 50);
    EXPECT_EQ(offsets.back().error, 0.25);
  });
}

}  // namespace
}  // namespace paceline
