// The order of attention's tiles, division by FastDivmod, and the schedulers of both passes. On
// the host: needs no GPU.

#include "cuda/attention/schedule/tile_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "cuda/ampere/swizzle.h"
#include "cuda/attention/schedule/fast_divmod.h"
#include "cuda/attention/schedule/snake_scheduler.h"
#include "cuda/attention/schedule/stream_k_plan.h"
#include "cuda/attention/schedule/stream_k_scheduler.h"

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

constexpr int multiprocessors = 132;
constexpr StreamKCosts costs{.fixup = 0.3, .fixup_per_part = 0.015};

TileOrder tiles(int context, int heads, int batch, bool causal, int section = 1000, int inner = 64,
                int outer = 128) {
  TileOrder::Shape shape = backward_shape(context, heads, batch, causal, section);
  shape.inner = inner;
  shape.outer = outer;
  return TileOrder(shape);
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

TEST(StreamKPlan, WhatIsDataParallel) {
  EXPECT_EQ(planned(tiles(16384, 16, 4, true)).stream_k_tiles(), 0);  // many causal tiles
  EXPECT_EQ(planned(tiles(16384, 16, 4, true)).parts(), 1);
  EXPECT_GT(planned(tiles(4096, 2, 1, true, 2)).stream_k_tiles(), 0);
  EXPECT_EQ(planned(tiles(4096, 2, 1, true, 1)).stream_k_tiles(), 0);  // in sections
  EXPECT_EQ(planned(tiles(1 << 23, 1, 1, true)).stream_k_tiles(), 0);  // too many steps
  constexpr StreamKCosts expensive{.fixup = 3, .fixup_per_part = 0.02};
  const TileOrder short_tiles = tiles(256, 1, 1, true);
  EXPECT_GT(planned(short_tiles).stream_k_tiles(), 0);
  EXPECT_EQ(plan_stream_k(short_tiles, expensive, multiprocessors, 1 << 20).stream_k_tiles(), 0);
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

TEST(StreamKPlan, WithoutAMaskTilesThatDoNotFillAWaveAreSplit) {
  const StreamKScheduler scheduler = planned(tiles(16384, 16, 1, false));  // 2048 tiles, 15.5 waves
  EXPECT_EQ(scheduler.data_parallel_tiles(), 15 * multiprocessors);
  EXPECT_EQ(scheduler.stream_k_units(), multiprocessors);
  EXPECT_EQ(scheduler.parts(), 2);
  EXPECT_EQ(planned(tiles(4096, 132, 1, false)).stream_k_tiles(), 0);  // 32 waves
}

TEST(StreamKPlan, OneTileIsSplitOverTheMultiprocessors) {
  EXPECT_GT(planned(tiles(8192, 1, 1, false, 1, 64, 8192)).parts(), 8);
}

TEST(StreamKPlan, FewCausalTilesAreSplit) {
  const StreamKScheduler scheduler = planned(tiles(8192, 1, 1, true));
  EXPECT_EQ(scheduler.data_parallel_tiles(), 0);
  EXPECT_LT(stream_k_time(scheduler, costs),
            data_parallel_time(scheduler.order(), 0, multiprocessors) / 3);
}

// ---- the swizzled layout of tiles in shared memory ---------------------------------------------

constexpr unsigned tile_rows = 64;

// Shared memory has 32 banks of 4 bytes.
template <class Layout>
unsigned bank(unsigned row, unsigned column) {
  return Layout::offset(row, column) / 4 % 32;
}

template <unsigned columns, unsigned element_bytes>
struct SwizzleCase {
  using Layout = Swizzle<columns * element_bytes, element_bytes>;
  static constexpr unsigned chunks = columns * element_bytes / 16;
  static constexpr unsigned per_chunk = 16 / element_bytes;

  static void is_a_permutation() {
    std::set<unsigned> offsets;
    for (unsigned r = 0; r < tile_rows; ++r) {
      for (unsigned c = 0; c < columns; ++c) offsets.insert(Layout::offset(r, c));
    }
    EXPECT_EQ(offsets.size(), tile_rows * columns);
    EXPECT_EQ(*offsets.rbegin(), (tile_rows * columns - 1) * element_bytes);
  }

  static void starts_lead_to_every_chunk() {
    for (unsigned r = 0; r < 16; ++r) {
      for (unsigned c = 0; c < 2; ++c) {
        for (unsigned further = 0; c + further < chunks; further += 2) {
          EXPECT_EQ(Layout::start(r, c).further(16, further),
                    Layout::chunk_offset(r + 16, c + further));
        }
      }
    }
  }

  // ldmatrix reads one chunk of 16 bytes in each of 8 rows.
  static void matrices_meet_no_bank_twice() {
    for (unsigned first = 0; first < tile_rows; first += 8) {
      for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        std::set<unsigned> banks;
        for (unsigned r = 0; r < 8; ++r) banks.insert(bank<Layout>(first + r, chunk * per_chunk));
        EXPECT_EQ(banks.size(), 8U) << "chunk " << chunk;
      }
    }
  }

  // A warp reads 8 adjacent floats in each of four rows that are `stride` apart.
  static void columns_meet_no_bank_twice(unsigned stride) {
    for (unsigned first = 0; first < tile_rows; first += 4 * stride) {
      for (unsigned column = 0; column < columns; column += 8) {
        std::set<unsigned> banks;
        for (unsigned r = 0; r < 4; ++r) {
          for (unsigned c = 0; c < 8; ++c) {
            banks.insert(bank<Layout>(first + r * stride, column + c));
          }
        }
        EXPECT_EQ(banks.size(), 32U) << "column " << column << " stride " << stride;
      }
    }
  }

  static void check() {
    SCOPED_TRACE(testing::Message() << columns << " columns of " << element_bytes << " bytes");
    is_a_permutation();
    starts_lead_to_every_chunk();
    matrices_meet_no_bank_twice();
    if (element_bytes == 4) {
      columns_meet_no_bank_twice(1);
      // Not for rows of 64 and 320 bytes: they start at only two banks, and every other row starts
      // at the same one.
      if (chunks % 8 == 0) columns_meet_no_bank_twice(2);
    }
  }
};

template <unsigned... columns>
void check_rows_of(std::integer_sequence<unsigned, columns...>) {
  (SwizzleCase<columns, 2>::check(), ...);
  (SwizzleCase<columns, 4>::check(), ...);
}

TEST(Swizzle, IsAPermutationWithoutBankConflicts) {
  check_rows_of(std::integer_sequence<unsigned, 16, 32, 64, 80, 128>{});
}

}  // namespace
}  // namespace paceline
