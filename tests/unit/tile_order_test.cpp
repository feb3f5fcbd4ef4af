// The order of attention's tiles, division by FastDivmod, and the scheduler of the forward pass. On
// the host: needs no GPU.

#include "cuda/attention/schedule/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "cuda/attention/schedule/fast_divmod.h"
#include "cuda/attention/schedule/snake_scheduler.h"

namespace paceline {
namespace {

TileOrder::Shape forward_shape(int context, int heads, int batch, bool causal, int section = 1000) {
  constexpr int queries = 192;
  return {.context = context,
          .heads = heads,
          .batch = batch,
          .outer = queries,
          .inner = 128,
          .causal = causal,
          .reach = (context + queries - 1) / queries * queries,
          .section = section};
}

TileOrder::Shape backward_shape(int context, int heads, int batch, bool causal,
                                int section = 1000) {
  return {.context = context,
          .heads = heads,
          .batch = batch,
          .outer = 128,
          .inner = 64,
          .causal = causal,
          .reach = context,
          .section = section};
}

// ---- the order ---------------------------------------------------------------------------------

TEST(TileOrder, HasEachTileOnce) {
  std::mt19937 random(3);
  const auto draw = [&](unsigned max) { return static_cast<int>(1 + random() % max); };
  for (int i = 0; i < 50; ++i) {
    const bool causal = i % 2 == 0;
    const TileOrder order(forward_shape(draw(5000), draw(5), draw(4), causal, draw(9)));
    std::set<std::tuple<int, int, int>> tiles;
    for (int tile = 0; tile < order.tiles(); ++tile) {
      const WorkItem item = order.tile(tile);
      EXPECT_EQ(item.tile, tile);
      EXPECT_EQ(item.first, 0);
      EXPECT_EQ(item.end, order.inner_tiles(item.index_in_head));
      ASSERT_LT(item.index_in_head, order.tiles_per_head());
      tiles.emplace(item.index_in_head, item.head, item.batch);
    }
    EXPECT_EQ(tiles.size(), static_cast<std::size_t>(order.tiles_per_head() * order.all_heads()));
  }
}

TEST(TileOrder, SeesWhatTheMaskLeaves) {
  const TileOrder keys_of_queries(forward_shape(1000, 1, 1, true));
  // Queries 960 to 999, 768 to 959, ... 0 to 191.
  const std::vector<int> keys = {8, 8, 6, 5, 3, 2};
  for (int index_in_head = 0; index_in_head < keys_of_queries.tiles_per_head(); ++index_in_head) {
    EXPECT_EQ(keys_of_queries.inner_tiles(index_in_head),
              keys.at(static_cast<std::size_t>(index_in_head)));
  }
  const TileOrder queries_of_keys(backward_shape(300, 1, 1, true));
  // Queries 0 to 299 of keys 0 to 127, then from 128 and from 256 on.
  EXPECT_EQ(queries_of_keys.inner_tiles(0), 5);
  EXPECT_EQ(queries_of_keys.inner_tiles(1), 3);
  EXPECT_EQ(queries_of_keys.inner_tiles(2), 1);
}

TEST(TileOrder, HeadsGoInSectionsAndTheLongestTilesOfThoseFirst) {
  const TileOrder order(forward_shape(2000, 5, 3, true, 4));
  int section = 0;
  int index_in_head = 0;
  for (int tile = 0; tile < order.tiles(); ++tile) {
    const WorkItem item = order.tile(tile);
    const int now = (item.batch * 5 + item.head) / 4;
    if (now != section) index_in_head = 0;
    EXPECT_GE(now, section);
    EXPECT_GE(item.index_in_head, index_in_head);
    section = now;
    index_in_head = item.index_in_head;
  }
}

// ---- division -----------------------------------------------------------------------------------

TEST(FastDivmod, DividesWhatAnIntHolds) {
  std::mt19937 random(5);
  const int largest = std::numeric_limits<int>::max();
  const auto check = [](int x, int n) {
    const FastDivmod d(n);
    EXPECT_EQ(x / d, x / n) << x << " / " << n;
    EXPECT_EQ(x % d, x % n) << x << " % " << n;
  };
  const auto draw = [&] { return static_cast<int>((random() & 0x7fffffffU) >> random() % 31); };
  for (int i = 0; i < 100000; ++i) {
    const int n = std::max(1, draw());
    const int x = draw();
    check(x, n);
    check(x / n * n, n);  // the smallest dividend with this quotient
    if (x >= n) check(x / n * n - 1, n);
    check(largest, n);
  }
  for (int bit = 0; bit < 31; ++bit) {
    const int n = 1 << bit;
    for (const int by : {std::max(1, n - 1), n, n + 1}) {
      for (const int x : {0, 1, n - 1, n, n + 1, largest - 1, largest}) check(x, by);
    }
  }
  check(largest, largest);
}

// ---- snake order -------------------------------------------------------------------------------

TEST(SnakeScheduler, EveryTileIsComputedOnceWholeOrInAllItsParts) {
  std::mt19937 random(4);
  const auto draw = [&](unsigned max) { return static_cast<int>(1 + random() % max); };
  for (int i = 0; i < 200; ++i) {
    const int log2_parts = static_cast<int>(random() % 4);
    const int parts = 1 << log2_parts;
    const int clusters = draw(20);
    const int tiles = draw(300);
    const int data_parallel = parts == 1 ? tiles : static_cast<int>(random() % tiles);
    const SnakeScheduler scheduler({.tiles = tiles,
                                    .data_parallel_tiles = data_parallel,
                                    .log2_parts = log2_parts,
                                    .blocks = clusters * parts});
    SCOPED_TRACE(testing::Message() << tiles << " tiles, " << data_parallel << " data-parallel, "
                                    << parts << " parts, " << scheduler.blocks() << " blocks");
    std::map<std::pair<int, int>, int> computed;
    for (int wave = 0; wave < scheduler.waves(); ++wave) {
      for (int block = 0; block < scheduler.blocks(); ++block) {
        const ScheduledTile scheduled = scheduler.tile(wave, block);
        if (scheduled.tile < 0) continue;
        EXPECT_EQ(scheduled.log2_parts, scheduled.tile < data_parallel ? 0 : log2_parts);
        if (scheduled.log2_parts > 0) {
          EXPECT_EQ(scheduled.part, block % parts);
        }
        ++computed[{scheduled.tile, scheduled.part}];
      }
    }
    const auto pieces = data_parallel + (tiles - data_parallel) * parts;
    EXPECT_EQ(computed.size(), static_cast<std::size_t>(pieces));
    for (const auto& [piece, times] : computed) EXPECT_EQ(times, 1) << piece.first;
  }
}

// 8192 queries with a causal mask: no block has 4% more work than the mean. With the longest tile
// of every wave given to the first block it was 18%.
TEST(SnakeScheduler, BlocksHaveEqualWork) {
  const TileOrder order(forward_shape(8192, 16, 1, true));
  constexpr int blocks = 132;
  const SnakeScheduler scheduler({.tiles = order.tiles(),
                                  .data_parallel_tiles = order.tiles(),
                                  .log2_parts = 0,
                                  .blocks = blocks});
  std::vector<int> steps(blocks, 0);
  for (int wave = 0; wave < scheduler.waves(); ++wave) {
    for (int block = 0; block < blocks; ++block) {
      const ScheduledTile scheduled = scheduler.tile(wave, block);
      if (scheduled.tile >= 0)
        steps.at(static_cast<std::size_t>(block)) += order.tile(scheduled.tile).end;
    }
  }
  const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / blocks;
  EXPECT_LT(*std::max_element(steps.begin(), steps.end()), 1.04 * mean);
}

}  // namespace
}  // namespace paceline
