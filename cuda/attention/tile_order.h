#pragma once
// The tiles of a launch: each holds rows of one operand (queries in the forward pass, keys in the
// backward) and goes over tiles of the other. In what order: the longest first, so that no block
// starts a long one last, and heads in sections that stay in the L2 cache together.

#include <algorithm>

#include "cuda/attention/divisor.h"

namespace paceline {

struct WorkItem {
  int tile;
  int index_in_head;  // of the tile, the longest first
  int head;
  int batch;
  int first;  // of the inner tiles that the tile sees, counted from the diagonal
  int end;
  bool whole;  // all of them
};

class TileOrder {
 public:
  struct Shape {
    int context;
    int heads;  // per sequence
    int batch;
    int outer;    // rows of a tile
    int inner;    // rows of the tiles that it goes over
    bool causal;  // tile r of a head sees reach - r outer rows, not all
    int reach;    // context, in the forward pass rounded up to whole tiles
    int section;  // heads, of all sequences, that go together
  };

  TileOrder() = default;
  explicit constexpr TileOrder(const Shape& shape)
      : s_(shape),
        tiles_per_head_((shape.context + shape.outer - 1) / shape.outer),
        inner_(shape.inner),
        heads_(shape.heads),
        section_(std::min(shape.section, all_heads())),
        last_section_((all_heads() - 1) % section_ + 1),
        section_tiles_(section_.value() * tiles_per_head_) {}

  [[nodiscard]] constexpr int tiles_per_head() const { return tiles_per_head_; }  // tiles of a head
  [[nodiscard]] constexpr int heads() const { return s_.heads; }
  [[nodiscard]] constexpr int all_heads() const { return s_.heads * s_.batch; }
  [[nodiscard]] constexpr int tiles() const { return tiles_per_head() * all_heads(); }
  [[nodiscard]] constexpr bool has_sections() const { return section_.value() < all_heads(); }
  [[nodiscard]] constexpr bool causal() const { return s_.causal; }
  [[nodiscard]] constexpr int longest() const { return seen(0); }
  // Inner tiles that a tile sees.
  [[nodiscard]] constexpr int seen(int index_in_head) const {
    const int rows =
        s_.causal ? std::min(s_.context, s_.reach - index_in_head * s_.outer) : s_.context;
    return (rows + s_.inner - 1) / inner_;
  }
  // By how many a tile sees fewer than the tile before it in its head; where outer rows are a
  // multiple of inner ones.
  [[nodiscard]] constexpr int fewer() const { return s_.causal ? s_.outer / inner_ : 0; }
  // Inner tiles that all tiles from one on see, and one for each tile's start; where outer rows are
  // a multiple of inner ones, and under a mask as many tiles of each head come before.
  [[nodiscard]] constexpr double steps(int from = 0) const {
    const int index_in_head = from / all_heads();
    return (tiles() - from) *
           (longest() + 1 - fewer() * (index_in_head + tiles_per_head() - 1) / 2.0);
  }

  [[nodiscard]] constexpr WorkItem tile(int index) const {
    const int first = index / section_tiles_ * section_.value();  // head of the section
    const Divisor& size = first + section_.value() <= all_heads() ? section_ : last_section_;
    const int within = index - first * tiles_per_head();
    const int index_in_head = within / size;
    const int head = first + within % size;
    return {index, index_in_head, head % heads_, head / heads_, 0, seen(index_in_head), true};
  }

 private:
  Shape s_{};
  int tiles_per_head_ = 0;
  Divisor inner_;
  Divisor heads_;
  Divisor section_;       // heads of a section
  Divisor last_section_;  // and of the last
  Divisor section_tiles_;
};

}  // namespace paceline
