#pragma once
// The tiles of a launch: each holds rows of one operand (queries in the forward pass, keys in the
// backward) and goes over tiles of the other, or over a part of them. In what order: the longest
// first, so that no block starts a long one last, and heads in sections that stay in the L2 cache
// together.

#include <algorithm>

#include "cuda/attention/divisor.h"

namespace paceline {

struct WorkItem {
  int rank;  // of the tile in its head, by length
  int head;
  int batch;
  int first;  // of the inner tiles that the tile sees, counted from the diagonal
  int end;
};

class TileOrder {
 public:
  struct Shape {
    int context;
    int heads;  // per sequence
    int batch;
    int outer;    // rows of a tile
    int inner;    // rows of the tiles that it goes over
    bool causal;  // a tile of rank r sees reach - r outer rows, not all
    int reach;    // context, in the forward pass rounded up to whole tiles
    int section;  // heads, of all sequences, that go together
  };

  TileOrder() = default;
  // Whole tiles.
  explicit constexpr TileOrder(const Shape& shape)
      : s_(shape),
        blocks_((shape.context + shape.outer - 1) / shape.outer),
        outer_(shape.outer),
        inner_(shape.inner),
        heads_(shape.heads),
        section_(std::min(shape.section, all_heads())),
        last_section_((all_heads() - 1) % section_ + 1),
        section_tiles_(section_.value() * blocks_),
        span_(longest() + 1) {}
  // Parts of so many inner tiles.
  constexpr TileOrder(const Shape& shape, int span) : TileOrder(shape) {
    span_ = Divisor(span);
    full_parts_ = longest() / span;
  }

  [[nodiscard]] constexpr int blocks() const { return blocks_; }
  [[nodiscard]] constexpr int heads() const { return s_.heads; }
  [[nodiscard]] constexpr int all_heads() const { return s_.heads * s_.batch; }
  [[nodiscard]] constexpr bool has_sections() const { return section_.value() < all_heads(); }
  [[nodiscard]] constexpr int longest() const { return seen(0); }
  // Inner tiles that a tile sees.
  [[nodiscard]] constexpr int seen(int rank) const {
    const int rows = s_.causal ? std::min(s_.context, s_.reach - rank * s_.outer) : s_.context;
    return (rows + s_.inner - 1) / inner_;
  }
  // Tiles of a head that see so many inner tiles or more, at most longest().
  [[nodiscard]] constexpr int tiles_that_see(int inner_tiles) const {
    if (!s_.causal) return blocks();
    const int beyond = s_.reach - (inner_tiles - 1) * s_.inner;
    return std::min(blocks(), (beyond + s_.outer - 1) / outer_);
  }
  // Parts of a whole span, in all heads.
  [[nodiscard]] constexpr int full_items() const {
    int items = 0;
    for (int part = 1; part <= full_parts_; ++part) items += tiles_that_see(part * span());
    return items * all_heads();
  }
  // With what is left of the tiles, of which some have nothing left.
  [[nodiscard]] constexpr int items() const {
    return full_items() + (has_rests() ? blocks() * all_heads() : 0);
  }
  [[nodiscard]] constexpr int parts(int rank) const { return (seen(rank) + span() - 1) / span_; }
  [[nodiscard]] constexpr int span() const { return span_.value(); }
  [[nodiscard]] constexpr bool causal() const { return s_.causal; }

  // Of whole tiles.
  [[nodiscard]] constexpr WorkItem tile(int index) const {
    WorkItem item = place(index, blocks(), section_tiles_);
    item.end = seen(item.rank);
    return item;
  }
  [[nodiscard]] constexpr WorkItem at(int index) const {
    for (int part = 0; part < full_parts_; ++part) {
      const int tiles = tiles_that_see((part + 1) * span());
      if (index < tiles * all_heads()) {
        WorkItem item = place(index, tiles, section_.value() * tiles);
        item.first = part * span();
        item.end = item.first + span();
        return item;
      }
      index -= tiles * all_heads();
    }
    WorkItem item = tile(index);
    item.first = item.end - item.end % span_;
    return item;
  }

 private:
  [[nodiscard]] constexpr bool has_rests() const { return s_.causal || longest() % span_ != 0; }

  // Of the longest so many tiles of each head.
  template <class Number>
  [[nodiscard]] constexpr WorkItem place(int index, int tiles, const Number& section_tiles) const {
    const int first = index / section_tiles * section_.value();  // head of the section
    const Divisor& size = first + section_.value() <= all_heads() ? section_ : last_section_;
    const int within = index - first * tiles;
    const int head = first + within % size;
    return {within / size, head % heads_, head / heads_, 0, 0};
  }

  Shape s_{};
  int blocks_ = 0;
  Divisor outer_;
  Divisor inner_;
  Divisor heads_;
  Divisor section_;       // heads of a section
  Divisor last_section_;  // and of the last
  Divisor section_tiles_;
  Divisor span_;
  int full_parts_ = 0;
};

}  // namespace paceline
