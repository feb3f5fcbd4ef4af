#pragma once
// How the blocks of a launch share its tiles, of which the first is the longest.

namespace paceline {

// A tile, or a part of it: part `part` of `parts` of what it goes over.
struct TileShare {
  int tile = -1;  // none
  int part = 0;
  int parts = 1;
};

// Blocks take tiles in turns, from the first block to the last and back: who has had the longest of
// a round gets the shortest of the next. Single blocks take the first `whole` of them; each of the
// rest is for a cluster of blocks, which takes it part by part.
struct Turns {
  int tiles = 0;
  int whole = 0;
  int parts = 1;   // blocks of a cluster
  int blocks = 1;  // a multiple of parts

  [[nodiscard]] constexpr int clusters() const { return blocks / parts; }
  [[nodiscard]] constexpr int rounds_of_whole() const { return rounds_of(whole, blocks); }
  [[nodiscard]] constexpr int rounds() const {
    return rounds_of_whole() + rounds_of(tiles - whole, clusters());
  }
  [[nodiscard]] constexpr TileShare share(int round, int block) const {
    if (round < rounds_of_whole()) {
      const int tile = turn(round, blocks, block);
      return {tile < whole ? tile : -1, 0, 1};
    }
    const int tile = whole + turn(round - rounds_of_whole(), clusters(), block / parts);
    return {tile < tiles ? tile : -1, block % parts, parts};
  }

 private:
  static constexpr int rounds_of(int items, int takers) { return (items + takers - 1) / takers; }
  static constexpr int turn(int round, int takers, int taker) {
    return round * takers + (round % 2 == 0 ? taker : takers - 1 - taker);
  }
};

}  // namespace paceline
