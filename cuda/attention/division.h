#pragma once
// Into how many parts the inner loop of attention tiles is divided: the tiles of one short sequence
// would leave most multiprocessors idle, and with a causal mask the longest would be waited for.

#include <algorithm>

namespace paceline {

// Tiles of all heads, each of which goes over tiles of the other operand; times are in those of one
// such inner tile.
struct TiledWork {
  int tiles;        // of all heads
  int longest;      // inner tiles of a tile that sees all
  bool causal;      // the others see half of that on average
  double start_up;  // of a block: its tile's loads and stores
  double merge;     // once: putting parts together
};

struct Division {
  int parts = 1;
  int span = 0;  // inner tiles of a part
};

// Estimated time, in inner tiles.
constexpr double estimated(const TiledWork& w, int parts, int multiprocessors) {
  const double span = (w.longest + parts - 1) / parts;
  const double block = span + w.start_up;
  const double merge = parts > 1 ? w.merge : 0;
  if (!w.causal) {
    const int rounds = (w.tiles * parts + multiprocessors - 1) / multiprocessors;
    return rounds * block + merge;
  }
  // The longest start first, so that blocks end at about the same time.
  const double blocks = w.tiles * (parts + 1) / 2.0;
  const double total = w.tiles * (w.longest + 1) / 2.0 + blocks * w.start_up;
  return std::max(block, total / multiprocessors) + merge;
}

constexpr Division divided(const TiledWork& w, int multiprocessors) {
  constexpr int most_parts = 64;
  int best = 1;
  for (int parts = 2; parts <= std::min(w.longest, most_parts); ++parts) {
    if (estimated(w, parts, multiprocessors) < estimated(w, best, multiprocessors)) best = parts;
  }
  return {best, (w.longest + best - 1) / best};
}

}  // namespace paceline
