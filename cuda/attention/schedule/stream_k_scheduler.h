#pragma once
// Stream-K with data-parallel tiles (Osama et al., arXiv:2301.03598) for the backward pass, where
// several blocks may add to the sums of one tile. Units of work are first the data-parallel tiles,
// one tile each, then equal shares of the remaining tiles, the stream-K units. A stream-K unit
// continues from one tile to the next. Its length is counted in steps: one for each inner tile, and
// one for the start of each tile, which takes about as long. stream_k_plan.h chooses the split.

#include <algorithm>
#include <limits>

#include "cuda/attention/schedule/tile_order.h"

namespace paceline {

class StreamKScheduler {
 public:
  StreamKScheduler() = default;
  // The first `data_parallel_tiles` tiles are data-parallel. The others are divided into at most
  // `max_units` stream-K units, of at most 2^29 steps in all. With a causal mask heads are not in
  // sections, and every head has the same number of data-parallel tiles. The rows of an outer tile
  // are a multiple of those of an inner tile, and `reach` is the context.
  constexpr StreamKScheduler(const TileOrder& order, int data_parallel_tiles, int max_units)
      : order_(order),
        heads_(order.all_heads()),
        data_parallel_tiles_(data_parallel_tiles),
        decrement_(order.decrement()) {
    if (stream_k_tiles() == 0) return;
    longest_ = order.inner_tiles(data_parallel_tiles / heads_) + 1;
    const int steps = steps_before(stream_k_tiles());
    steps_per_unit_ = FastDivmod((steps - 1) / max_units + 1);
    stream_k_units_ = (steps - 1) / steps_per_unit_ + 1;
  }
  // All tiles are data-parallel.
  explicit constexpr StreamKScheduler(const TileOrder& order)
      : StreamKScheduler(order, order.tiles(), 1) {}

  [[nodiscard]] constexpr const TileOrder& order() const { return order_; }
  [[nodiscard]] constexpr int data_parallel_tiles() const { return data_parallel_tiles_; }
  [[nodiscard]] constexpr int stream_k_tiles() const {
    return order_.tiles() - data_parallel_tiles_;
  }
  [[nodiscard]] constexpr int stream_k_units() const { return stream_k_units_; }
  [[nodiscard]] constexpr int steps_per_unit() const { return steps_per_unit_.divisor(); }
  [[nodiscard]] constexpr int units() const { return data_parallel_tiles_ + stream_k_units_; }
  // The approximate number of units that compute the longest stream-K tile; 1 without such tiles.
  [[nodiscard]] constexpr int parts() const {
    return stream_k_units_ == 0
               ? 1
               : std::max(2, (longest_ - 1 + steps_per_unit() - 1) / steps_per_unit_);
  }
  // Whether several units compute a stream-K tile (counted from the first one). A tile may also lie
  // within one unit.
  [[nodiscard]] constexpr bool has_parts(int stream_k_tile) const {
    const int first = steps_before(stream_k_tile) + 1;
    const int last = steps_before(stream_k_tile + 1) - 1;
    return first / steps_per_unit_ < last / steps_per_unit_;
  }

  // Calls f(WorkItem) for each tile, or part of a tile, of a unit; not at all for a unit that holds
  // nothing but a tile's start. f is called in one place, because its code is long.
  template <class F>
  constexpr void for_each_part(int unit, F&& f) const {
    int tile = unit;
    int done = 0;  // steps of the tile that are in another unit
    int left = std::numeric_limits<int>::max();
    if (unit >= data_parallel_tiles_) {
      const int first = (unit - data_parallel_tiles_) * steps_per_unit();
      const int stream_k_tile = tile_at(first);
      tile = data_parallel_tiles_ + stream_k_tile;
      done = first - steps_before(stream_k_tile);
      left = steps_per_unit();
    }
    for (; left > 0 && tile < order_.tiles(); ++tile) {
      WorkItem part = order_.tile(tile);
      const int steps = part.end + 1;
      part.first = std::max(0, done - 1);
      part.end = std::min(part.end, done + (left - 1));
      part.whole = part.end - part.first == steps - 1;
      left = tile < data_parallel_tiles_ ? 0 : left - (steps - done);
      done = 0;
      if (part.first < part.end) f(part);
    }
  }

 private:
  // Steps of the stream-K tiles before `tile`. With a causal mask the tile of index_in_head r in
  // its head has r * decrement_ steps fewer than the longest.
  [[nodiscard]] constexpr int steps_before(int tile) const {
    const int index_in_head = tile / heads_;
    const int indices_before =
        tile * index_in_head -
        heads_.divisor() * (index_in_head * (index_in_head + 1) / 2);  // sum over the tiles before
    return tile * longest_ - decrement_ * indices_before;
  }
  // The stream-K tile that holds a step.
  [[nodiscard]] constexpr int tile_at(int step) const {
    int tile = 0;
    int beyond = stream_k_tiles();
    while (beyond - tile > 1) {
      const int middle = (tile + beyond) / 2;
      (steps_before(middle) <= step ? tile : beyond) = middle;
    }
    return tile;
  }

  TileOrder order_;
  FastDivmod heads_;
  int data_parallel_tiles_ = 0;
  int stream_k_units_ = 0;
  FastDivmod steps_per_unit_;
  int longest_ = 0;    // steps of the longest stream-K tile
  int decrement_ = 0;  // steps fewer than the tile before it in its head
};

}  // namespace paceline
