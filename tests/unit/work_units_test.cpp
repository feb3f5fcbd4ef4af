// The units of work of the backward pass. On the host: a GPU is not needed.

#include "cuda/attention/work_units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "cuda/attention/division.h"

namespace paceline {
namespace {

constexpr int multiprocessors = 132;
constexpr DivisionCosts costs{.merge = 0.3, .merge_of_part = 0.015};

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

// Inner tiles of each unit, and the starts of tiles that it begins.
std::vector<int> steps_of_units(const WorkUnits& units) {
  std::vector<int> steps;
  for (int unit = 0; unit < units.count(); ++unit) {
    steps.push_back(0);
    units.for_each_part(unit, [&](const WorkItem& part) {
      steps.back() += part.end - part.first + (part.first == 0 ? 1 : 0);
    });
  }
  return steps;
}

void expect_each_tile_covered_once(const WorkUnits& units) {
  std::map<int, std::vector<std::pair<int, int>>> parts;
  for (int unit = 0; unit < units.count(); ++unit) {
    units.for_each_part(unit, [&](const WorkItem& part) {
      const WorkItem whole = units.order().tile(part.tile);
      EXPECT_EQ(part.index_in_head, whole.index_in_head);
      EXPECT_EQ(part.head, whole.head);
      EXPECT_EQ(part.batch, whole.batch);
      EXPECT_LT(part.first, part.end);
      EXPECT_EQ(part.whole, part.first == 0 && part.end == whole.end);
      if (part.tile < units.whole()) {
        EXPECT_EQ(unit, part.tile);
      }
      parts[part.tile].emplace_back(part.first, part.end);
    });
  }
  EXPECT_EQ(parts.size(), static_cast<std::size_t>(units.order().tiles()));
  for (const auto& [tile, of_tile] : parts) {  // in the order of units
    int next = 0;
    for (const auto& [first, end] : of_tile) {
      EXPECT_EQ(first, next);
      next = end;
    }
    EXPECT_EQ(next, units.order().tile(tile).end);
    const bool divided = tile >= units.whole() && units.divides(tile - units.whole());
    EXPECT_EQ(of_tile.size() > 1, divided);
  }
}

TEST(WorkUnits, CoverEachTileOnce) {
  std::mt19937 random(3);
  const auto draw = [&](unsigned most) { return static_cast<int>(1 + random() % most); };
  for (int i = 0; i < 200; ++i) {
    const bool causal = i % 2 == 0;
    const int context = draw(5000);
    const int heads = draw(5);
    const int section = causal ? 1000 : draw(9);
    const int inner = i % 4 < 2 ? 64 : 128;
    const TileOrder order = tiles(context, heads, draw(4), causal, section, inner);
    const int whole =
        causal ? order.all_heads() * (draw(static_cast<unsigned>(order.tiles_per_head())) - 1)
               : draw(static_cast<unsigned>(order.tiles() + 1)) - 1;
    for (const int most_shares : {1, draw(20), draw(300)}) {
      SCOPED_TRACE(testing::Message()
                   << "context " << context << ", " << order.all_heads() << " heads by " << section
                   << ", causal " << causal << ", inner " << inner << ": " << whole
                   << " tiles whole, at most " << most_shares << " shares");
      expect_each_tile_covered_once(WorkUnits(order, whole, most_shares));
    }
  }
}

TEST(WorkUnits, AreEquallyMuch) {
  for (const bool causal : {false, true}) {
    const WorkUnits units(tiles(8192, 2, 1, causal), causal ? 0 : 20, multiprocessors);
    const std::vector<int> steps = steps_of_units(units);
    const auto longest = *std::max_element(steps.begin() + units.whole(), steps.end());
    EXPECT_LE(longest,
              units.length() + 1);  // a share may end with a start, which is another's then
    int all = 0;
    for (const int of_unit : steps) all += of_unit;
    const int of_whole = units.whole() * (units.order().longest() + 1);
    EXPECT_LE(longest, (all - of_whole) / units.shares() + 2);
  }
}

// As many inner tiles as an int does not hold.
TEST(WorkUnits, OfVeryManyTiles) {
  const TileOrder order = tiles(1 << 20, 32, 1, false);
  const int whole = order.tiles() - 100;
  const WorkUnits units(order, whole, multiprocessors);
  std::vector<int> steps(100, 0);
  for (int unit = whole; unit < units.count(); ++unit) {
    units.for_each_part(unit, [&](const WorkItem& part) {
      ASSERT_GE(part.tile, whole);
      steps.at(static_cast<std::size_t>(part.tile - whole)) += part.end - part.first;
    });
  }
  EXPECT_EQ(steps, std::vector<int>(100, order.longest()));
}

// ---- which tiles are shared --------------------------------------------------------------------

WorkUnits found(const TileOrder& order, int cached = 1 << 20) {
  return divided(order, costs, multiprocessors, cached);
}

TEST(Division, ManyCausalTilesStayWhole) {
  EXPECT_EQ(found(tiles(16384, 16, 4, true)).shared(), 0);
  EXPECT_EQ(found(tiles(16384, 16, 4, true)).parts(), 1);
}

TEST(Division, CausalTilesInSectionsStayWhole) {
  EXPECT_GT(found(tiles(4096, 2, 1, true, 2)).shared(), 0);
  EXPECT_EQ(found(tiles(4096, 2, 1, true, 1)).shared(), 0);
}

// 512 tiles, of which the first two rounds stay whole: then 248 see at most 496 inner tiles.
TEST(Division, OfOneCausalHeadWhatStaysInTheCacheIsShared) {
  const TileOrder order = tiles(65536, 1, 1, true);
  EXPECT_EQ(found(order, 1024).whole(), 0);
  for (const int cached : {1023, 496}) {
    const WorkUnits units = found(order, cached);
    EXPECT_EQ(units.whole(), 2 * multiprocessors);
    EXPECT_EQ(units.shares(), multiprocessors);
  }
  EXPECT_EQ(found(order, 495).shared(), 0);
  EXPECT_EQ(found(tiles(33000, 1, 1, true), 512).shared(), 0);  // less than two rounds
  EXPECT_EQ(found(tiles(33793, 1, 1, true), 512).shared(), 0);  // and one short tile
}

TEST(Division, StepsThatCouldNotBeNumberedStayWhole) {
  EXPECT_EQ(found(tiles(1 << 23, 1, 1, true)).shared(), 0);
}

TEST(Division, WithoutAMaskTilesThatDoNotFillARoundAreShared) {
  const WorkUnits units = found(tiles(16384, 16, 1, false));  // 2048 tiles, 15.5 rounds
  EXPECT_EQ(units.whole(), 15 * multiprocessors);
  EXPECT_EQ(units.shares(), multiprocessors);
  EXPECT_EQ(units.parts(), 2);
  EXPECT_EQ(found(tiles(4096, 132, 1, false)).shared(), 0);  // 32 rounds
}

TEST(Division, OneTileIsSpreadOverTheMultiprocessors) {
  const TileOrder one({.context = 8192,
                       .heads = 1,
                       .batch = 1,
                       .outer = 8192,
                       .inner = 64,
                       .causal = false,
                       .reach = 8192,
                       .section = 1});
  EXPECT_GT(found(one).parts(), 8);
}

TEST(Division, SharesAreNotWorthTheirMergeWhereTilesAreShort) {
  constexpr DivisionCosts dear{.merge = 3, .merge_of_part = 0.02};
  const TileOrder order = tiles(256, 1, 1, true);
  EXPECT_GT(found(order).shared(), 0);
  EXPECT_EQ(divided(order, dear, multiprocessors, 1 << 20).shared(), 0);
}

TEST(Division, FewCausalTilesAreShared) {
  const WorkUnits units = found(tiles(8192, 1, 1, true));
  EXPECT_EQ(units.whole(), 0);
  EXPECT_LT(time_of_shares(units, costs), time_of_whole(units.order(), 0, multiprocessors) / 3);
}

}  // namespace
}  // namespace paceline
