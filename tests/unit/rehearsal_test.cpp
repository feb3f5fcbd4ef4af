#include <gtest/gtest.h>

#include <array>

#include "core/error.h"
#include "harness/case_run.h"
#include "thread_world.h"

namespace paceline {
namespace {

// What each of two ranks knows after fits_in_memory().
struct Found {
  bool fits = true;
  CaseRecord record;
};

std::array<Found, 2> rehearse(const std::function<void(int rank)>& work) {
  std::array<Found, 2> found;
  ThreadWorld::run(2, [&](World& world) {
    Found& mine = found.at(static_cast<std::size_t>(world.rank()));
    mine.fits = fits_in_memory(world, mine.record, 2e9, [&] { work(world.rank()); });
  });
  return found;
}

TEST(FitsInMemory, OneRankThatLacksMemoryIsEnough) {
  for (const int lacks : {0, 1}) {
    const auto found = rehearse([&](int rank) {
      const MemoryLedger ledger;
      if (rank == lacks) throw OutOfMemory(100, ledger, 50, "forward");
    });
    for (const Found& mine : found) {
      EXPECT_FALSE(mine.fits) << lacks;
      EXPECT_EQ(mine.record.status, Status::oom) << lacks;
    }
    const std::string& reason = found[0].record.reason;
    const std::string named = "rank " + std::to_string(lacks) + ": 'forward' asked for 100 B";
    EXPECT_TRUE(reason.starts_with("about 2.00 GB are needed; " + named)) << reason;
  }
}

TEST(FitsInMemory, TheHostSMemoryCounts) {
  const auto found = rehearse([](int rank) {
    if (rank == 1) throw std::bad_alloc();
  });
  EXPECT_FALSE(found[0].fits);
  EXPECT_NE(found[0].record.reason.find("rank 1: the host's own memory"), std::string::npos);
}

TEST(FitsInMemory, WithMemoryOnEveryRank) {
  for (const Found& mine : rehearse([](int) {})) {
    EXPECT_TRUE(mine.fits);
    EXPECT_EQ(mine.record.status, Status::ok);
    EXPECT_EQ(mine.record.reason, "");
  }
}

}  // namespace
}  // namespace paceline
