#pragma once
// The tiles of a launch and their order. A tile holds rows of the outer operand (queries in the
// forward pass, keys in the backward pass) and loops over tiles of the inner one. The order is LPT
// (longest processing time first), so that no block starts a long tile last. Heads are grouped into
// sections whose inner operands fit into the L2 cache together.

#include <algorithm>

#include "cuda/attention/schedule/fast_divmod.h"

namespace paceline {

struct WorkItem {
  int tile;           // its index in the order
  int index_in_head;  // among the tiles of its head, the longest first
  int head;
  int batch;
  int first;  // the range of inner tiles, counted from the first that the tile sees
  int end;
  bool whole;  // the range is all that the tile sees
};

class TileOrder {
 public:
  struct Shape {
    int context;
    int heads;  // of one sequence
    int batch;
    int outer;    // rows of an outer tile
    int inner;    // rows of an inner tile
    bool causal;  // tile r of a head sees reach - r * outer rows, not all
    int reach;    // the context; in the forward pass rounded up to whole outer tiles
    int section;  // heads, of all sequences, in a section
  };

  TileOrder() = default;
  explicit constexpr TileOrder(const Shape& shape)
      : s_(shape),
        tiles_per_head_((shape.context + shape.outer - 1) / shape.outer),
        inner_(shape.inner),
        heads_(shape.heads),
        section_(std::min(shape.section, all_heads())),
        last_section_((all_heads() - 1) % section_ + 1),
        section_tiles_(section_.divisor() * tiles_per_head_) {}

  [[nodiscard]] constexpr int tiles_per_head() const { return tiles_per_head_; }
  [[nodiscard]] constexpr int heads() const { return s_.heads; }  // of one sequence
  [[nodiscard]] constexpr int all_heads() const { return s_.heads * s_.batch; }
  [[nodiscard]] constexpr int tiles() const { return tiles_per_head() * all_heads(); }
  [[nodiscard]] constexpr bool has_sections() const { return section_.divisor() < all_heads(); }
  [[nodiscard]] constexpr bool causal() const { return s_.causal; }
  // Inner tiles that a tile sees.
  [[nodiscard]] constexpr int inner_tiles(int index_in_head) const {
    const int rows =
        s_.causal ? std::min(s_.context, s_.reach - index_in_head * s_.outer) : s_.context;
    return (rows + s_.inner - 1) / inner_;
  }
  [[nodiscard]] constexpr int longest() const { return inner_tiles(0); }
  // By how many inner tiles each tile of a head is shorter than the one before. For outer rows that
  // are a multiple of the inner ones.
  [[nodiscard]] constexpr int decrement() const { return s_.causal ? s_.outer / inner_ : 0; }
  // Inner tiles of all tiles from `first` on, plus one for the start of each tile. For outer rows
  // that are a multiple of the inner ones and, with a mask, as many tiles of every head before
  // `first`.
  [[nodiscard]] constexpr double steps(int first = 0) const {
    const int index_in_head = first / all_heads();
    return (tiles() - first) *
           (longest() + 1 - decrement() * (index_in_head + tiles_per_head() - 1) / 2.0);
  }

  [[nodiscard]] constexpr WorkItem tile(int index) const {
    const int first = index / section_tiles_ * section_.divisor();  // head of the section
    const FastDivmod& size = first + section_.divisor() <= all_heads() ? section_ : last_section_;
    const int within = index - first * tiles_per_head();
    const int index_in_head = within / size;
    const int head = first + within % size;
    return {index, index_in_head, head % heads_, head / heads_, 0, inner_tiles(index_in_head),
            true};
  }

 private:
  Shape s_{};
  int tiles_per_head_ = 0;
  FastDivmod inner_;
  FastDivmod heads_;
  FastDivmod section_;       // heads of a section
  FastDivmod last_section_;  // heads of the last section
  FastDivmod section_tiles_;
};

}  // namespace paceline
