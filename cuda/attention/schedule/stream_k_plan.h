#pragma once
// Which tiles of the backward pass are data-parallel and which are split (stream_k_scheduler.h).
// The tiles of one short sequence would leave most multiprocessors idle, with a causal mask all
// blocks would wait for the longest tile, and without one the last wave is seldom full.

#include <algorithm>

#include "cuda/attention/schedule/stream_k_scheduler.h"

namespace paceline {

// The time to combine the partial sums of split tiles, in units of the time of one inner tile.
struct StreamKCosts {
  double fixup;           // once
  double fixup_per_part;  // for each part of every split tile
};

// Estimated times of the tiles from `first` on, in the same unit.

// Data-parallel: each block takes the next tile when it is done. Without a mask `first` begins a
// single wave.
constexpr double data_parallel_time(const TileOrder& order, int first, int multiprocessors) {
  const int longest = order.inner_tiles(first / order.all_heads()) + 1;
  const double mean = order.steps(first) / multiprocessors;
  if (mean <= longest) return longest;
  // How late the last block is: a fit to schedules of 300 to 4096 tiles that were computed exactly.
  const double uneven = longest * multiprocessors / (8.0 * (order.tiles() - first));
  return mean + uneven;
}

constexpr double stream_k_time(const StreamKScheduler& scheduler, const StreamKCosts& costs) {
  // The ends of units, each in another tile if there are enough tiles.
  const int ends = scheduler.stream_k_units() - 1;
  const int parts = ends + std::min(ends, scheduler.stream_k_tiles());
  const int start = 1;  // of a tile that another unit has begun
  return scheduler.steps_per_unit() + start + costs.fixup + parts * costs.fixup_per_part;
}

// The first tile that can be split. Without a mask the tiles of full waves stay data-parallel. With
// a causal mask, blocks traverse data-parallel tiles side by side, but read split tiles at many
// different places at once, so the head's inner tiles must fit into the L2 cache. Therefore no tile
// is split where heads are in sections, and of a single head only tiles of at most `cached` inner
// tiles. Its data-parallel waves come in pairs, because the block with the longest tile of one has
// the shortest of the next.
constexpr int first_stream_k_tile(const TileOrder& order, int multiprocessors, int cached) {
  if (!order.causal()) return order.tiles() / multiprocessors * multiprocessors;
  if (order.has_sections()) return order.tiles();
  if (order.all_heads() > 1) return 0;
  int first = 0;
  while (first < order.tiles() && order.inner_tiles(first) > cached) first += 2 * multiprocessors;
  return std::min(first, order.tiles());
}

// The schedule with the least estimated time.
constexpr StreamKScheduler plan_stream_k(const TileOrder& order, const StreamKCosts& costs,
                                         int multiprocessors, int cached) {
  StreamKScheduler best(order);
  const int first = first_stream_k_tile(order, multiprocessors, cached);
  constexpr double max_steps = 1 << 29;  // so that step numbers do not overflow
  if (first == order.tiles() || order.steps(first) > max_steps) return best;
  double least = data_parallel_time(order, first, multiprocessors);
  for (int units = multiprocessors; units > 1; units /= 2) {
    const StreamKScheduler candidate(order, first, units);
    const double time = stream_k_time(candidate, costs);
    if (time >= least) continue;
    least = time;
    best = candidate;
  }
  return best;
}

}  // namespace paceline
