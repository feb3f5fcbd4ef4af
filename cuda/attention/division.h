#pragma once
// Which tiles of the backward pass are shared: those of one short sequence would leave most
// multiprocessors idle, with a causal mask the longest would be waited for, and without one the
// last round is seldom full.

#include <algorithm>

#include "cuda/attention/work_units.h"

namespace paceline {

// Times in those of one inner tile.
struct DivisionCosts {
  double merge;          // of putting parts together: once,
  double merge_of_part;  // and for each part of all tiles
};

// Estimated times, in that of one inner tile, of the tiles from one on.

// By blocks that take the next when they are done; without a mask of one round.
constexpr double time_of_whole(const TileOrder& order, int from, int multiprocessors) {
  const int longest = order.seen(from / order.all_heads()) + 1;
  const double mean = order.steps(from) / multiprocessors;
  if (mean <= longest) return longest;
  // By which the last block is late: a fit to schedules of 300 to 4096 tiles, worked out one by
  // one.
  const double uneven = longest * multiprocessors / (8.0 * (order.tiles() - from));
  return mean + uneven;
}

constexpr double time_of_shares(const WorkUnits& units, const DivisionCosts& costs) {
  const int ends = units.shares() - 1;  // of shares, each in another tile if there are enough
  const int parts = ends + std::min(ends, units.shared());
  const int start = 1;  // of a tile that another unit has begun
  return units.length() + start + costs.merge + parts * costs.merge_of_part;
}

// The first tile that can be shared, after whole rounds; under a causal mask in pairs: who has the
// longest tile of one has the shortest of the other. Blocks go through whole causal tiles side by
// side, through shares at as many places: what those read has to stay in the L2 cache, `cached`
// inner tiles of one head. Where heads go in sections it does not.
constexpr int first_shared(const TileOrder& order, int multiprocessors, int cached) {
  if (!order.causal()) return order.tiles() / multiprocessors * multiprocessors;
  if (order.has_sections()) return order.tiles();
  if (order.all_heads() > 1) return 0;
  int first = 0;
  while (first < order.tiles() && order.seen(first) > cached) first += 2 * multiprocessors;
  return std::min(first, order.tiles());
}

// The division that takes least.
constexpr WorkUnits divided(const TileOrder& order, const DivisionCosts& costs, int multiprocessors,
                            int cached) {
  WorkUnits best(order);
  const int whole = first_shared(order, multiprocessors, cached);
  constexpr double most_steps = 1 << 29;  // so that they are numbered without overflow
  if (whole == order.tiles() || order.steps(whole) > most_steps) return best;
  double least = time_of_whole(order, whole, multiprocessors);
  for (int shares = multiprocessors; shares > 1; shares /= 2) {
    const WorkUnits found(order, whole, shares);
    const double time = time_of_shares(found, costs);
    if (time >= least) continue;
    least = time;
    best = found;
  }
  return best;
}

}  // namespace paceline
