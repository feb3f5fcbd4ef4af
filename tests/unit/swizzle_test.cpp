// The swizzled layout of tiles in shared memory, for every row size of the attention kernels: the
// offsets are a permutation, and accesses have no bank conflicts.

#include "cuda/ampere/swizzle.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace paceline {
namespace {

constexpr unsigned tile_rows = 64;

// Shared memory has 32 banks of 4 bytes.
template <class Layout>
unsigned bank(unsigned row, unsigned column) {
  return Layout::offset(row, column) / 4 % 32;
}

template <unsigned columns, unsigned element_bytes>
struct SwizzleCase {
  using Layout = Swizzle<columns * element_bytes, element_bytes>;
  static constexpr unsigned chunks = columns * element_bytes / 16;
  static constexpr unsigned per_chunk = 16 / element_bytes;

  static void is_a_permutation() {
    std::set<unsigned> offsets;
    for (unsigned r = 0; r < tile_rows; ++r) {
      for (unsigned c = 0; c < columns; ++c) offsets.insert(Layout::offset(r, c));
    }
    EXPECT_EQ(offsets.size(), tile_rows * columns);
    EXPECT_EQ(*offsets.rbegin(), (tile_rows * columns - 1) * element_bytes);
  }

  static void starts_lead_to_every_chunk() {
    for (unsigned r = 0; r < 16; ++r) {
      for (unsigned c = 0; c < 2; ++c) {
        for (unsigned further = 0; c + further < chunks; further += 2) {
          EXPECT_EQ(Layout::start(r, c).further(16, further),
                    Layout::chunk_offset(r + 16, c + further));
        }
      }
    }
  }

  // ldmatrix reads one chunk of 16 bytes in each of 8 rows.
  static void matrices_meet_no_bank_twice() {
    for (unsigned first = 0; first < tile_rows; first += 8) {
      for (unsigned chunk = 0; chunk < chunks; ++chunk) {
        std::set<unsigned> banks;
        for (unsigned r = 0; r < 8; ++r) banks.insert(bank<Layout>(first + r, chunk * per_chunk));
        EXPECT_EQ(banks.size(), 8U) << "chunk " << chunk;
      }
    }
  }

  // A warp reads 8 adjacent floats in each of four rows that are `stride` apart.
  static void columns_meet_no_bank_twice(unsigned stride) {
    for (unsigned first = 0; first < tile_rows; first += 4 * stride) {
      for (unsigned column = 0; column < columns; column += 8) {
        std::set<unsigned> banks;
        for (unsigned r = 0; r < 4; ++r) {
          for (unsigned c = 0; c < 8; ++c) {
            banks.insert(bank<Layout>(first + r * stride, column + c));
          }
        }
        EXPECT_EQ(banks.size(), 32U) << "column " << column << " stride " << stride;
      }
    }
  }

  static void check() {
    SCOPED_TRACE(testing::Message() << columns << " columns of " << element_bytes << " bytes");
    is_a_permutation();
    starts_lead_to_every_chunk();
    matrices_meet_no_bank_twice();
    if (element_bytes == 4) {
      columns_meet_no_bank_twice(1);
      // Not for rows of 64 and 320 bytes: they start at only two banks, and every other row starts
      // at the same one.
      if (chunks % 8 == 0) columns_meet_no_bank_twice(2);
    }
  }
};

template <unsigned... columns>
void check_rows_of(std::integer_sequence<unsigned, columns...>) {
  (SwizzleCase<columns, 2>::check(), ...);
  (SwizzleCase<columns, 4>::check(), ...);
}

TEST(Swizzle, IsAPermutationWithoutBankConflicts) {
  check_rows_of(std::integer_sequence<unsigned, 16, 32, 64, 80, 128>{});
}

}  // namespace
}  // namespace paceline
