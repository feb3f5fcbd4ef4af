// The stream-K scheduler of the backward pass. On the host: needs no GPU.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cuda/attention/schedule/stream_k_plan.h"
#include "cuda/attention/schedule/stream_k_scheduler.h"

namespace paceline {
namespace {

constexpr int multiprocessors = 132;
constexpr StreamKCosts costs{.fixup = 0.3, .fixup_per_part = 0.015};

TileOrder tiles(int context, int heads, int batch, bool causal, int section = 1000,
                int inner = 64) {
  return TileOrder({.context = context,
                    .heads = heads,
                    .batch = batch,
                    .outer = 128,
                    .inner = inner,
                    .causal = causal,
                    .reach = context,
                    .section = section});
}

// The steps of each unit: its inner tiles, and one for each tile that it begins.
std::vector<int> steps_of_units(const StreamKScheduler& scheduler) {
  std::vector<int> steps;
  for (int unit = 0; unit < scheduler.units(); ++unit) {
    steps.push_back(0);
    scheduler.for_each_part(unit, [&](const WorkItem& part) {
      steps.back() += part.end - part.first + (part.first == 0 ? 1 : 0);
    });
  }
  return steps;
}

void expect_each_tile_covered_once(const StreamKScheduler& scheduler) {
  std::map<int, std::vector<std::pair<int, int>>> parts;
  for (int unit = 0; unit < scheduler.units(); ++unit) {
    scheduler.for_each_part(unit, [&](const WorkItem& part) {
      const WorkItem whole = scheduler.order().tile(part.tile);
      EXPECT_EQ(part.index_in_head, whole.index_in_head);
      EXPECT_EQ(part.head, whole.head);
      EXPECT_EQ(part.batch, whole.batch);
      EXPECT_LT(part.first, part.end);
      EXPECT_EQ(part.whole, part.first == 0 && part.end == whole.end);
      if (part.tile < scheduler.data_parallel_tiles()) {
        EXPECT_EQ(unit, part.tile);
      }
      parts[part.tile].emplace_back(part.first, part.end);
    });
  }
  EXPECT_EQ(parts.size(), static_cast<std::size_t>(scheduler.order().tiles()));
  for (const auto& [tile, of_tile] : parts) {  // in the order of units
    int next = 0;
    for (const auto& [first, end] : of_tile) {
      EXPECT_EQ(first, next);
      next = end;
    }
    EXPECT_EQ(next, scheduler.order().tile(tile).end);
    const bool is_split = tile >= scheduler.data_parallel_tiles() &&
                          scheduler.has_parts(tile - scheduler.data_parallel_tiles());
    EXPECT_EQ(of_tile.size() > 1, is_split);
  }
}

TEST(StreamKScheduler, CoversEachTileOnce) {
  std::mt19937 random(3);
  const auto draw = [&](unsigned max) { return static_cast<int>(1 + random() % max); };
  for (int i = 0; i < 200; ++i) {
    const bool causal = i % 2 == 0;
    const int context = draw(5000);
    const int heads = draw(5);
    const int section = causal ? 1000 : draw(9);
    const int inner = i % 4 < 2 ? 64 : 128;
    const TileOrder order = tiles(context, heads, draw(4), causal, section, inner);
    const int data_parallel =
        causal ? order.all_heads() * (draw(static_cast<unsigned>(order.tiles_per_head())) - 1)
               : draw(static_cast<unsigned>(order.tiles() + 1)) - 1;
    for (const int max_units : {1, draw(20), draw(300)}) {
      SCOPED_TRACE(testing::Message()
                   << "context " << context << ", " << order.all_heads() << " heads by " << section
                   << ", causal " << causal << ", inner " << inner << ": " << data_parallel
                   << " tiles data-parallel, at most " << max_units << " stream-K units");
      expect_each_tile_covered_once(StreamKScheduler(order, data_parallel, max_units));
    }
  }
}

TEST(StreamKScheduler, UnitsHaveEqualWork) {
  for (const bool causal : {false, true}) {
    const StreamKScheduler scheduler(tiles(8192, 2, 1, causal), causal ? 0 : 20, multiprocessors);
    const std::vector<int> steps = steps_of_units(scheduler);
    const auto longest =
        *std::max_element(steps.begin() + scheduler.data_parallel_tiles(), steps.end());
    EXPECT_LE(longest,
              scheduler.steps_per_unit() +
                  1);  // a unit may end with a tile's start, which then counts for the next unit
    int all = 0;
    for (const int of_unit : steps) all += of_unit;
    const int of_data_parallel =
        scheduler.data_parallel_tiles() * (scheduler.order().longest() + 1);
    EXPECT_LE(longest, (all - of_data_parallel) / scheduler.stream_k_units() + 2);
  }
}

// More inner tiles than an int can count.
TEST(StreamKScheduler, VeryManyTiles) {
  const TileOrder order = tiles(1 << 20, 32, 1, false);
  const int data_parallel = order.tiles() - 100;
  const StreamKScheduler scheduler(order, data_parallel, multiprocessors);
  std::vector<int> steps(100, 0);
  for (int unit = data_parallel; unit < scheduler.units(); ++unit) {
    scheduler.for_each_part(unit, [&](const WorkItem& part) {
      ASSERT_GE(part.tile, data_parallel);
      steps.at(static_cast<std::size_t>(part.tile - data_parallel)) += part.end - part.first;
    });
  }
  EXPECT_EQ(steps, std::vector<int>(100, order.longest()));
}

// ---- which tiles are split ---------------------------------------------------------------------

StreamKScheduler planned(const TileOrder& order, int cached = 1 << 20) {
  return plan_stream_k(order, costs, multiprocessors, cached);
}

TEST(StreamKPlan, ManyCausalTilesAreDataParallel) {
  EXPECT_EQ(planned(tiles(16384, 16, 4, true)).stream_k_tiles(), 0);
  EXPECT_EQ(planned(tiles(16384, 16, 4, true)).parts(), 1);
}

TEST(StreamKPlan, CausalTilesInSectionsAreDataParallel) {
  EXPECT_GT(planned(tiles(4096, 2, 1, true, 2)).stream_k_tiles(), 0);
  EXPECT_EQ(planned(tiles(4096, 2, 1, true, 1)).stream_k_tiles(), 0);
}

// Of 512 tiles the first two waves are data-parallel; the other 248 see at most 496 inner tiles.
TEST(StreamKPlan, OfOneCausalHeadWhatFitsIntoTheCacheIsSplit) {
  const TileOrder order = tiles(65536, 1, 1, true);
  EXPECT_EQ(planned(order, 1024).data_parallel_tiles(), 0);
  for (const int cached : {1023, 496}) {
    const StreamKScheduler scheduler = planned(order, cached);
    EXPECT_EQ(scheduler.data_parallel_tiles(), 2 * multiprocessors);
    EXPECT_EQ(scheduler.stream_k_units(), multiprocessors);
  }
  EXPECT_EQ(planned(order, 495).stream_k_tiles(), 0);
  EXPECT_EQ(planned(tiles(33000, 1, 1, true), 512).stream_k_tiles(), 0);  // less than two waves
  EXPECT_EQ(planned(tiles(33793, 1, 1, true), 512).stream_k_tiles(),
            0);  // two waves and one short tile
}

TEST(StreamKPlan, TilesOfTooManyStepsAreDataParallel) {
  EXPECT_EQ(planned(tiles(1 << 23, 1, 1, true)).stream_k_tiles(), 0);
}

TEST(StreamKPlan, WithoutAMaskTilesThatDoNotFillAWaveAreSplit) {
  const StreamKScheduler scheduler = planned(tiles(16384, 16, 1, false));  // 2048 tiles, 15.5 waves
  EXPECT_EQ(scheduler.data_parallel_tiles(), 15 * multiprocessors);
  EXPECT_EQ(scheduler.stream_k_units(), multiprocessors);
  EXPECT_EQ(scheduler.parts(), 2);
  EXPECT_EQ(planned(tiles(4096, 132, 1, false)).stream_k_tiles(), 0);  // 32 waves
}

TEST(StreamKPlan, OneTileIsSplitOverTheMultiprocessors) {
  const TileOrder one({.context = 8192,
                       .heads = 1,
                       .batch = 1,
                       .outer = 8192,
                       .inner = 64,
                       .causal = false,
                       .reach = 8192,
                       .section = 1});
  EXPECT_GT(planned(one).parts(), 8);
}

TEST(StreamKPlan, ShortTilesAreNotWorthTheFixup) {
  constexpr StreamKCosts expensive{.fixup = 3, .fixup_per_part = 0.02};
  const TileOrder order = tiles(256, 1, 1, true);
  EXPECT_GT(planned(order).stream_k_tiles(), 0);
  EXPECT_EQ(plan_stream_k(order, expensive, multiprocessors, 1 << 20).stream_k_tiles(), 0);
}

TEST(StreamKPlan, FewCausalTilesAreSplit) {
  const StreamKScheduler scheduler = planned(tiles(8192, 1, 1, true));
  EXPECT_EQ(scheduler.data_parallel_tiles(), 0);
  EXPECT_LT(stream_k_time(scheduler, costs),
            data_parallel_time(scheduler.order(), 0, multiprocessors) / 3);
}

}  // namespace
}  // namespace paceline
