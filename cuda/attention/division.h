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

// Of the first so many tiles, by blocks that take the next when they are done; under a causal mask
// of all, or of rounds in pairs: who had the longest of one has the shortest of the other.
constexpr double time_of_whole(const TileOrder& order, int tiles, int multiprocessors) {
  const int longest = order.longest() + 1;
  if (!order.causal()) return (tiles + multiprocessors - 1) / multiprocessors * longest;
  const double mean = (order.steps() - order.steps(tiles)) / multiprocessors;
  if (tiles < order.tiles()) return mean;
  if (mean <= longest) return longest;
  // By which the last block is late: a fit to schedules of 300 to 4096 tiles, worked out one by
  // one.
  const double uneven = longest * multiprocessors / (8.0 * order.tiles());
  return mean + uneven;
}

// Estimated time, in that of one inner tile.
constexpr double estimated(const WorkUnits& units, const DivisionCosts& costs,
                           int multiprocessors) {
  const double whole = time_of_whole(units.order(), units.whole(), multiprocessors);
  if (units.shared() == 0) return whole;
  const int ends = units.shares() - 1;  // of shares, each in another tile if there are enough
  const int parts = ends + std::min(ends, units.shared());
  const int start = 1;  // of a tile that another unit has begun
  return whole + units.length() + start + costs.merge + parts * costs.merge_of_part;
}

// The first tile that can be shared. Blocks go through whole causal tiles side by side, through
// shares at as many places: what those read has to stay in the L2 cache, `cached` inner tiles of
// one head. Where heads go in sections it does not.
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
  double least = estimated(best, costs, multiprocessors);
  for (int shares = multiprocessors; shares > 1; shares /= 2) {
    const WorkUnits found(order, whole, shares);
    const double time = estimated(found, costs, multiprocessors);
    if (time >= least) continue;
    least = time;
    best = found;
  }
  return best;
}

}  // namespace paceline
