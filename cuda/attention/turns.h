#pragma once
// How the blocks of a launch share its tiles, of which the first is the longest.

namespace paceline {

// A tile, or a part of what it goes over.
struct TileShare {
  int tile;  // negative: none
  int part;
  int log2_parts;
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

  [[nodiscard]] constexpr TileShare share(int round, int block) const {
    if (round < rounds_of_whole_) {
      const int tile = turn(round, s_.blocks, block);
      return {tile < s_.whole ? tile : -1, 0, 0};
    }
    const int cluster = block >> s_.log2_parts;
    const int tile = s_.whole + turn(round - rounds_of_whole_, clusters_, cluster);
    return {tile < s_.tiles ? tile : -1, block - (cluster << s_.log2_parts), s_.log2_parts};
  }

 private:
  static constexpr int rounds_of(int items, int takers) { return (items + takers - 1) / takers; }
  static constexpr int turn(int round, int takers, int taker) {
    return round * takers + (round % 2 == 0 ? taker : takers - 1 - taker);
  }

  Shape s_{};
  int clusters_ = 1;
  int rounds_of_whole_ = 0;
  int rounds_ = 0;
};

}  // namespace paceline
