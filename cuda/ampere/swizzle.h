#pragma once
// Where a tile's elements lie in shared memory: row by row, the 16-byte chunks of a row permuted by
// XOR, so that no access below meets a bank twice (a bank is 4 bytes of 128):
//   ldmatrix reads one chunk of 8 neighbouring rows;
//   tiles of float are also read down their columns, 8 neighbouring elements of rows 0-3 or 4-7, or
//   of the even or of the odd ones of 8 rows.

namespace paceline {

// A tile of `row_bytes` a row, a multiple of 32. When its rows start in `8 / period` places of the
// 8 chunks that span the banks, as many neighbours share a permutation, which stays within `period`
// chunks.
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
  // Bytes from the tile's start.
  static constexpr unsigned chunk_offset(unsigned row, unsigned chunk) {
    const unsigned permuted = (chunk % period) ^ permutation(row);
    return row * row_bytes + (chunk / period * period + permuted) * 16;
  }
  static constexpr unsigned offset(unsigned row, unsigned column) {
    constexpr unsigned per_chunk = 16 / element_bytes;
    return chunk_offset(row, column / per_chunk) + column % per_chunk * element_bytes;
  }

  // Where a lane starts to read, and where it reads `rows` further, a multiple of 8, and `chunks`
  // further. Almost all of that is known to the compiler, which would not see it by itself: what is
  // left takes one register for every chunk of a period.
  struct Start {
    unsigned row;    // bytes to the row
    unsigned chunk;  // and from there to the chunk

    [[nodiscard]] constexpr unsigned further(unsigned rows, unsigned chunks_further) const {
      return row + rows * row_bytes + chunks_further / period * period * 16 +
             (chunk ^ (chunks_further % period * 16));
    }
  };
  // The bits of `chunk` and of every later chunks_further, within a period, must not overlap.
  static constexpr Start start(unsigned row, unsigned chunk) {
    return {row * row_bytes + chunk / period * period * 16,
            ((chunk % period) ^ permutation(row)) * 16};
  }
};

}  // namespace paceline
