#pragma once
// The layout of a tile in shared memory: row-major, with the 16-byte chunks of each row permuted by
// XOR, so that these accesses have no bank conflicts (32 banks of 4 bytes):
//   ldmatrix reads one chunk of 8 neighbouring rows;
//   tiles of float are also read down their columns: 8 neighbouring elements of rows 0-3 or 4-7, or
//   of the even or the odd rows of 8.

namespace paceline {

// row_bytes: of a row of the tile, a multiple of 32. Eight chunks span the banks. If a row has
// fewer, 8 / period neighbouring rows start in different banks and share a permutation, which stays
// within `period` chunks.
template <unsigned row_bytes, unsigned element_bytes>
struct Swizzle {
  static_assert(row_bytes % 32 == 0);
  static constexpr unsigned chunks = row_bytes / 16;
  static constexpr unsigned period = chunks % 8 == 0 ? 8 : chunks % 4 == 0 ? 4 : 2;

  static constexpr unsigned permutation(unsigned row) {
    const unsigned group = row / (8 / period) % period;
    if (element_bytes < 4) return group;
    // Columns read two neighbouring chunks at once: neighbouring rows must differ above bit 0.
    constexpr unsigned half = period / 2;
    return 2 * ((group % half) ^ (group / half)) + group / half;
  }
  // Offsets in bytes from the start of the tile.
  static constexpr unsigned chunk_offset(unsigned row, unsigned chunk) {
    const unsigned permuted = (chunk % period) ^ permutation(row);
    return row * row_bytes + (chunk / period * period + permuted) * 16;
  }
  static constexpr unsigned offset(unsigned row, unsigned column) {
    constexpr unsigned per_chunk = 16 / element_bytes;
    return chunk_offset(row, column / per_chunk) + column % per_chunk * element_bytes;
  }

  // The chunk at which a lane starts to read. further() gives the offset of the chunk `rows` (a
  // multiple of 8) and `chunks_further` further. Written this way, almost all of it is constant for
  // the compiler; the rest takes one register for each chunk of a period.
  struct Start {
    unsigned row;    // byte offset of the row
    unsigned chunk;  // byte offset of the chunk in it

    [[nodiscard]] constexpr unsigned further(unsigned rows, unsigned chunks_further) const {
      return row + rows * row_bytes + chunks_further / period * period * 16 +
             (chunk ^ (chunks_further % period * 16));
    }
  };
  // Within a period, the bits of `chunk` and of each later chunks_further must not overlap.
  static constexpr Start start(unsigned row, unsigned chunk) {
    return {row * row_bytes + chunk / period * period * 16,
            ((chunk % period) ^ permutation(row)) * 16};
  }
};

}  // namespace paceline
