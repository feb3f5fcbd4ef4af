#pragma once
// In what order a launch computes tiles of queries: the longest first, so that no block starts a
// long one last (with a causal mask, those of the last rows), and heads in sections whose keys and
// values stay in the L2 cache together.

namespace paceline {

struct QueryTile {
  int block;  // of queries
  int head;
  int batch;
};

struct TileOrder {
  int blocks;   // tiles of a head
  int heads;    // per sequence
  int batch;    // sequences
  int section;  // heads, of all sequences, that go together

  [[nodiscard]] constexpr __host__ __device__ int tiles() const { return blocks * heads * batch; }

  [[nodiscard]] constexpr __host__ __device__ QueryTile at(int index) const {
    const int first = index / (section * blocks) * section;  // head of the section
    const int left = heads * batch - first;
    const int size = left < section ? left : section;
    const int within = index - first * blocks;
    const int head = first + within % size;
    return {blocks - 1 - within / size, head % heads, head / heads};
  }
};

}  // namespace paceline
