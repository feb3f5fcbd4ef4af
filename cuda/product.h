#pragma once
// What a matrix product is to a library that computes it: everything of its operands but where they
// lie and what they hold.

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "core/matrix.h"

namespace paceline {

// The alignment in bytes, at most 256, that the operand's rows have in every batch.
[[nodiscard]] std::uint32_t alignment_of(const Matrix& m);

struct Product {
  struct Operand {
    Dtype dtype = Dtype::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::array<std::int64_t, 2> batch_stride{};  // 0 where there is nothing to stride over
    std::uint32_t alignment = 0;
    bool transposed = false;

    auto operator<=>(const Operand&) const = default;
  };

  Operand c, a, b;
  std::array<std::int64_t, 2> batch{1, 1};
  bool adds = false;        // c is read
  int multiprocessors = 0;  // that it may count on; 0: all

  Product() = default;
  Product(const Matrix& c_matrix, const Matrix& a_matrix, const Matrix& b_matrix, bool reads_c,
          int on_multiprocessors);

  auto operator<=>(const Product&) const = default;

  // One line without tabs, a different one for every product.
  [[nodiscard]] std::string text() const;
};

}  // namespace paceline
