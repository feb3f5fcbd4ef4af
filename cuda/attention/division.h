#pragma once
// Into how many parts the tiles of the backward pass are divided: those of one short sequence would
// leave most multiprocessors idle, and with a causal mask the longest would be waited for.

#include <algorithm>

#include "cuda/attention/tile_order.h"

namespace paceline {

// Times in those of one inner tile.
struct DivisionCosts {
  double start_up;       // of a part: the loads and stores of its tile
  double merge;          // of putting parts together: once,
  double merge_of_part;  // and for each part of all tiles
};

// Estimated time of all items, of which the longest start first, by blocks that take the next when
// they are done.
constexpr double estimated(const TileOrder& order, const DivisionCosts& costs,
                           int multiprocessors) {
  const auto rounds = [&](int items) { return (items + multiprocessors - 1) / multiprocessors; };
  const int full = order.full_items();
  const int rests = order.items() - full;
  const double part = std::min(order.span(), order.longest()) + costs.start_up;
  const double merge = order.parts(0) > 1 ? costs.merge + order.items() * costs.merge_of_part : 0;
  const int idle = rounds(full) * multiprocessors - full;  // in the last round of whole parts
  if (order.causal()) {
    // What is left of tiles is of all lengths up to a span: two of them, a long one and a short
    // one, fit beside a whole part.
    const double mean = order.span() / 2.0 + costs.start_up;
    const double total = full * part + rests * mean;
    const double unfitting = static_cast<double>(std::max(0, rests - 2 * idle)) / rests;
    return std::max(rounds(full) * part + unfitting * part, total / multiprocessors) + merge;
  }
  const double rest = order.longest() % order.span() + costs.start_up;
  return rounds(full) * part + rounds(std::max(0, rests - idle)) * rest + merge;
}

// The division that takes least. Many tiles stay whole.
constexpr TileOrder divided(const TileOrder::Shape& shape, const DivisionCosts& costs,
                            int multiprocessors) {
  constexpr int most_rounds = 4;
  TileOrder best(shape);
  const int longest = best.longest();
  const int most = most_rounds * multiprocessors / (best.blocks() * best.all_heads());
  for (int parts = 2; parts <= std::min(longest, most); ++parts) {
    const TileOrder found(shape, (longest + parts - 1) / parts);
    if (estimated(found, costs, multiprocessors) < estimated(best, costs, multiprocessors)) {
      best = found;
    }
  }
  return best;
}

}  // namespace paceline
