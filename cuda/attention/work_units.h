#pragma once
// Units of work for blocks that take one after the other, where a tile's sums may come from several
// blocks: whole tiles first, then equal shares of the others (division.h says which). A share goes
// on from tile to tile. It is counted in steps: inner tiles, and one for each tile's start, which
// takes about as long.

#include <algorithm>
#include <limits>

#include "cuda/attention/tile_order.h"

namespace paceline {

class WorkUnits {
 public:
  WorkUnits() = default;
  // The first so many tiles whole, of the others at most so many shares, of at most 2^29 steps in
  // all. With a causal mask heads are not in sections, and as many tiles of each are whole. The
  // rows of a tile are a multiple of those that it goes over, and `reach` is the context.
  constexpr WorkUnits(const TileOrder& order, int whole, int shares)
      : order_(order), heads_(order.all_heads()), whole_(whole), fewer_(order.fewer()) {
    if (shared() == 0) return;
    longest_ = order.seen(whole / heads_) + 1;
    const int steps = steps_before(shared());
    length_ = Divisor((steps - 1) / shares + 1);
    shares_ = (steps - 1) / length_ + 1;
  }
  explicit constexpr WorkUnits(const TileOrder& order) : WorkUnits(order, order.tiles(), 1) {}

  [[nodiscard]] constexpr const TileOrder& order() const { return order_; }
  [[nodiscard]] constexpr int whole() const { return whole_; }
  [[nodiscard]] constexpr int shared() const { return order_.tiles() - whole_; }
  [[nodiscard]] constexpr int shares() const { return shares_; }
  [[nodiscard]] constexpr int length() const { return length_.value(); }
  [[nodiscard]] constexpr int count() const { return whole_ + shares_; }
  // Of the longest tile that is shared, about.
  [[nodiscard]] constexpr int parts() const {
    return shares_ == 0 ? 1 : std::max(2, (longest_ - 1 + length() - 1) / length_);
  }
  // Whether a shared tile, counted from the first, is in parts, and not by chance whole in a share.
  [[nodiscard]] constexpr bool divides(int tile) const {
    const int first = steps_before(tile) + 1;
    const int last = steps_before(tile + 1) - 1;
    return first / length_ < last / length_;
  }

  // The tiles, or parts of them, of a unit; none where it is one tile's start. f is called in one
  // place: it is long.
  template <class F>
  constexpr void for_each_part(int unit, F&& f) const {
    int tile = unit;
    int done = 0;  // steps of the tile that are in another unit
    int left = std::numeric_limits<int>::max();
    if (unit >= whole_) {
      const int first = (unit - whole_) * length();
      const int shared_tile = tile_at(first);
      tile = whole_ + shared_tile;
      done = first - steps_before(shared_tile);
      left = length();
    }
    for (; left > 0 && tile < order_.tiles(); ++tile) {
      WorkItem part = order_.tile(tile);
      const int steps = part.end + 1;
      part.first = std::max(0, done - 1);
      part.end = std::min(part.end, done + (left - 1));
      part.whole = part.end - part.first == steps - 1;
      left = tile < whole_ ? 0 : left - (steps - done);
      done = 0;
      if (part.first < part.end) f(part);
    }
  }

 private:
  // Of the shared tiles, the steps before one. Under a mask the r-th of a head has r * fewer_ steps
  // fewer than the longest of them.
  [[nodiscard]] constexpr int steps_before(int tile) const {
    const int index_in_head = tile / heads_;
    const int lower = tile * index_in_head - heads_.value() * (index_in_head * (index_in_head + 1) /
                                                               2);  // sum of the indices before
    return tile * longest_ - fewer_ * lower;
  }
  // The shared tile that a step is one of.
  [[nodiscard]] constexpr int tile_at(int step) const {
    int tile = 0;
    int beyond = shared();
    while (beyond - tile > 1) {
      const int middle = (tile + beyond) / 2;
      (steps_before(middle) <= step ? tile : beyond) = middle;
    }
    return tile;
  }

  TileOrder order_;
  Divisor heads_;
  int whole_ = 0;
  int shares_ = 0;
  Divisor length_;   // of a share, in steps
  int longest_ = 0;  // shared tile's steps
  int fewer_ = 0;    // than the tile before it in its head
};

}  // namespace paceline
