// Into how many parts attention's tiles are divided.

#include "cuda/attention/division.h"

#include <gtest/gtest.h>

namespace paceline {
namespace {

constexpr int multiprocessors = 132;

TiledWork work(int tiles, int longest, bool causal) {
  return {.tiles = tiles, .longest = longest, .causal = causal, .start_up = 1.5, .merge = 4};
}

TEST(Division, ManyTilesStayWhole) {
  EXPECT_EQ(divided(work(132, 64, false), multiprocessors).parts, 1);
  EXPECT_EQ(divided(work(2048, 64, true), multiprocessors).parts, 1);
}

TEST(Division, OneTileIsSpreadOverTheMultiprocessors) {
  const Division found = divided(work(1, 64, false), multiprocessors);
  EXPECT_GT(found.parts, 16);
  EXPECT_GE(found.parts * found.span, 64);
  EXPECT_LT((found.parts - 1) * found.span, 64);
}

TEST(Division, PartsAreNotWorthTheirMergeWhereTilesAreShort) {
  EXPECT_EQ(divided(work(4, 3, true), multiprocessors).parts, 1);
}

TEST(Division, TheLongestOfFewCausalTilesIsDivided) {
  const TiledWork few = work(64, 64, true);
  const Division found = divided(few, multiprocessors);
  EXPECT_GT(found.parts, 1);
  EXPECT_LT(estimated(few, found.parts, multiprocessors),
            estimated(few, 1, multiprocessors) / 2);
}

TEST(Division, NoPartIsEmptyOfAWholeTile) {
  for (int tiles = 1; tiles < 300; tiles += 7) {
    for (int longest = 1; longest < 600; longest += 13) {
      for (const bool causal : {false, true}) {
        const Division found = divided(work(tiles, longest, causal), multiprocessors);
        EXPECT_GE(found.parts * found.span, longest);
        EXPECT_LT((found.parts - 1) * found.span, longest);
      }
    }
  }
}

}  // namespace
}  // namespace paceline
