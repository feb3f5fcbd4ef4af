#pragma once
// Static persistent scheduling for the forward pass: the tile that each block computes in each
// wave. Tiles are in LPT order, the longest first (tile_order.h).

namespace paceline {

// A tile, or one split-KV part of it.
struct ScheduledTile {
  int tile;  // negative: none
  int part;
  int log2_parts;
};

// Snake order: a wave hands out tiles to blocks 0 ... n - 1, the next wave to blocks n - 1 ... 0,
// so that the block with the longest tile of a wave gets the shortest tile of the next. The first
// `data_parallel_tiles` tiles are computed by one block each. Every later tile is split over its
// keys (split-KV): a cluster computes it, one part per block.
class SnakeScheduler {
 public:
  struct Shape {
    int tiles;
    int data_parallel_tiles;
    int log2_parts;  // a cluster has as many blocks as a tile has parts
    int blocks;      // a multiple of the parts
  };

  SnakeScheduler() = default;
  explicit constexpr SnakeScheduler(const Shape& shape)
      : s_(shape),
        clusters_(shape.blocks >> shape.log2_parts),
        data_parallel_waves_(waves_of(shape.data_parallel_tiles, shape.blocks)),
        waves_(data_parallel_waves_ +
               waves_of(shape.tiles - shape.data_parallel_tiles, clusters_)) {}

  [[nodiscard]] constexpr int tiles() const { return s_.tiles; }
  [[nodiscard]] constexpr int cluster_size() const { return 1 << s_.log2_parts; }  // in blocks
  [[nodiscard]] constexpr int blocks() const { return s_.blocks; }
  [[nodiscard]] constexpr int clusters() const { return clusters_; }
  [[nodiscard]] constexpr int data_parallel_waves() const { return data_parallel_waves_; }
  [[nodiscard]] constexpr int waves() const { return waves_; }

  [[nodiscard]] constexpr ScheduledTile tile(int wave, int block) const {
    if (wave < data_parallel_waves_) {
      const int tile = snake(wave, s_.blocks, block);
      return {tile < s_.data_parallel_tiles ? tile : -1, 0, 0};
    }
    const int cluster = block >> s_.log2_parts;
    const int tile =
        s_.data_parallel_tiles + snake(wave - data_parallel_waves_, clusters_, cluster);
    return {tile < s_.tiles ? tile : -1, block - (cluster << s_.log2_parts), s_.log2_parts};
  }

 private:
  static constexpr int waves_of(int tiles, int workers) { return (tiles + workers - 1) / workers; }
  static constexpr int snake(int wave, int workers, int worker) {
    return wave * workers + (wave % 2 == 0 ? worker : workers - 1 - worker);
  }

  Shape s_{};
  int clusters_ = 1;
  int data_parallel_waves_ = 0;
  int waves_ = 0;
};

}  // namespace paceline
