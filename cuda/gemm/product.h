#pragma once
// The description of a matrix product that a library's choice of algorithm depends on: everything
// about its operands but their addresses and values.

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "core/tensor.h"

namespace paceline {

// The alignment of the operand's rows in every batch, in bytes, at most 256.
[[nodiscard]] std::uint32_t alignment_of(const Matrix& m);

struct Product {
  struct Operand {
    Dtype dtype = Dtype::f32;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t row_stride = 0;
    std::array<std::int64_t, 2> batch_stride{};  // 0 if the dimension is 1
    std::uint32_t alignment = 0;
    bool transposed = false;

    auto operator<=>(const Operand&) const = default;
  };

  Operand c, a, b;
  std::array<std::int64_t, 2> batch{1, 1};
  bool adds = false;        // c is read
  int multiprocessors = 0;  // that it may occupy; 0: all

  Product() = default;
  Product(const Matrix& c_matrix, const Matrix& a_matrix, const Matrix& b_matrix, bool reads_c,
          int on_multiprocessors);

  auto operator<=>(const Product&) const = default;

  // Unique for every product.
  [[nodiscard]] std::string text() const;
};

}  // namespace paceline
