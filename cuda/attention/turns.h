#pragma once
// How the blocks of a launch share its tiles, of which the first is the longest.

namespace paceline {

// A tile, or a part of what it goes over.
struct TileShare {
  int tile;
  int part;
  int log2_parts;
  int step;  // to the next tile of who takes this one
};

// Blocks take tiles in turns, from the first block to the last and back: who has had the longest of
// a round gets the shortest of the next. Single blocks take the first `whole` of them; each of the
// rest is for a cluster of blocks, which takes it part by part.
class Turns {
 public:
  struct Shape {
    int tiles;
    int whole;
    int log2_parts;  // their number is that of a cluster's blocks
    int blocks;      // a multiple of parts
  };

  Turns() = default;
  explicit constexpr Turns(const Shape& shape)
      : s_(shape),
        clusters_(shape.blocks >> shape.log2_parts),
        rounds_of_whole_(rounds_of(shape.whole, shape.blocks)),
        rounds_(rounds_of_whole_ + rounds_of(shape.tiles - shape.whole, clusters_)) {}

  [[nodiscard]] constexpr int tiles() const { return s_.tiles; }
  [[nodiscard]] constexpr int cluster() const { return 1 << s_.log2_parts; }  // its blocks
  [[nodiscard]] constexpr int blocks() const { return s_.blocks; }
  [[nodiscard]] constexpr int clusters() const { return clusters_; }
  [[nodiscard]] constexpr int rounds_of_whole() const { return rounds_of_whole_; }
  [[nodiscard]] constexpr int rounds() const { return rounds_; }

  // What a block takes, one after another, until the tile is tiles() or more.
  [[nodiscard]] constexpr TileShare first(int block) const {
    if (block >= s_.whole) return first_part(block);
    return {block, 0, 0, to_next(s_.blocks, block)};
  }
  [[nodiscard]] constexpr TileShare next(TileShare share, int block) const {
    const bool is_whole = share.tile < s_.whole;
    share.tile += share.step;
    share.step = 2 * (is_whole ? s_.blocks : clusters_) - share.step;  // there and back
    return is_whole && share.tile >= s_.whole ? first_part(block) : share;
  }

 private:
  static constexpr int rounds_of(int items, int takers) { return (items + takers - 1) / takers; }
  static constexpr int to_next(int takers, int taker) { return 2 * (takers - taker) - 1; }
  [[nodiscard]] constexpr TileShare first_part(int block) const {
    const int cluster = block >> s_.log2_parts;
    const int part = block - (cluster << s_.log2_parts);
    return {s_.whole + cluster, part, s_.log2_parts, to_next(clusters_, cluster)};
  }

  Shape s_{};
  int clusters_ = 1;
  int rounds_of_whole_ = 0;
  int rounds_ = 0;
};

}  // namespace paceline
