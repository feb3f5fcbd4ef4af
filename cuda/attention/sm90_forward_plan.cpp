#include <array>
#include <limits>

#include "cuda/attention/sm90.h"
#include "cuda/attention/sm90_forward.h"
#include "cuda/current_device.h"

namespace paceline {

namespace {

struct Candidate {
  int warpgroups;
  int keys;
  TileOrder order;
};

Candidate candidate(const FlashShape& shape, int warpgroups, int parts) {
  const bool widest = shape.head_dim == 128 && !shape.causal && parts == 1;
  const int keys = widest ? most_forward_keys : forward_keys;
  const int queries = 64 * warpgroups;
  const auto context = static_cast<int>(shape.context);
  const int bytes_of_key = static_cast<int>(shape.head_dim) * 4;  // K and V
  return {warpgroups, keys,
          TileOrder({.context = context,
                     .heads = static_cast<int>(shape.heads),
                     .batch = static_cast<int>(shape.batch),
                     .outer = queries,
                     .inner = keys,
                     .causal = shape.causal,
                     .reach = (context + queries - 1) / queries * queries,
                     .section = heads_per_section(shape, bytes_of_key)})};
}

// Clusters of so many blocks that run at the same time.
int resident(int parts) { return parts == 1 ? multiprocessors() : sm90_forward_clusters(parts); }

// In steps of two warpgroups over 128 keys. The costs are measured (NOTES.md).
double estimated(const Candidate& c, const Turns& turns) {
  constexpr std::array<double, 4> step_of = {0, 0.74, 1, 1.22};  // by warpgroups
  constexpr double start_up = 0.8;
  constexpr double merge = 1;
  const double step = step_of.at(static_cast<std::size_t>(c.warpgroups)) * c.keys / forward_keys;
  const auto time = [&](double tiles_of_keys, int parts) {
    return tiles_of_keys * step + start_up + (parts > 1 ? merge : 0);
  };
  const int longest = c.order.longest();
  const double longest_time = time((longest + turns.parts() - 1) / turns.parts(), turns.parts());
  if (c.order.causal()) {
    const double mean = (longest + c.order.seen(c.order.blocks() - 1)) / 2.0 / turns.parts();
    const double share = static_cast<double>(turns.tiles()) / turns.clusters();
    // The last round of an odd number has nobody to make up for it.
    const double odd = turns.rounds() % 2 == 1 ? longest / share / 2 / turns.parts() * step : 0;
    return std::max(longest_time, share * time(mean, turns.parts()) + odd);
  }
  return turns.rounds_of_whole() * time(longest, 1) +
         (turns.rounds() - turns.rounds_of_whole()) * longest_time;
}

// With clusters: of all tiles, or of those that are left when the others fill whole rounds.
std::array<Turns, 2> ways(int tiles, int parts) {
  const int clusters = resident(parts);
  const int blocks = clusters * parts;
  if (parts == 1) {
    const Turns all(
        {.tiles = tiles, .whole = tiles, .parts = 1, .blocks = std::min(tiles, blocks)});
    return {all, all};
  }
  const Turns divided(
      {.tiles = tiles, .whole = 0, .parts = parts, .blocks = std::min(tiles, clusters) * parts});
  const int whole = tiles / blocks * blocks;
  if (whole == 0) return {divided, divided};
  return {divided, Turns({.tiles = tiles, .whole = whole, .parts = parts, .blocks = blocks})};
}

}  // namespace

ForwardPlan::ForwardPlan(const FlashShape& shape) {
  double least = std::numeric_limits<double>::infinity();
  for (int w = most_warpgroups(shape.head_dim); w >= 1; --w) {
    for (const int parts : {1, 2, 4, 8}) {
      const Candidate c = candidate(shape, w, parts);
      for (const Turns& way : ways(c.order.items(), parts)) {
        if (shape.causal && way.whole() > 0 && parts > 1)
          continue;  // the longest are to be divided
        const double time = estimated(c, way);
        if (time >= least) continue;
        least = time;
        warpgroups = w;
        keys = c.keys;
        order = c.order;
        turns = way;
      }
    }
  }
}

Sm90Tiles sm90_forward_tiles(const FlashShape& shape) {
  const ForwardPlan plan(shape);
  return {64 * plan.warpgroups, plan.keys, plan.turns.parts()};
}

}  // namespace paceline
