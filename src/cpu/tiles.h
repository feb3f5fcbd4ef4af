#pragma once
// Tiles of flash attention on the CPU and their products. Operands are rounded to the format that a
// GPU's tensor cores read, so that the CPU shows the error of each mode (bf16x3, tf32, ...).

#include <cstdint>
#include <vector>

#include "core/ops.h"

namespace paceline {

// [rows, cols], row-major.
template <class C>
class Tile {
 public:
  // All elements 0.
  void reset(std::int64_t rows, std::int64_t cols) {
    rows_ = rows;
    cols_ = cols;
    elements_.assign(static_cast<std::size_t>(rows * cols), C{});
  }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t cols() const { return cols_; }
  [[nodiscard]] C* row(std::int64_t i) { return elements_.data() + i * cols_; }
  [[nodiscard]] const C* row(std::int64_t i) const { return elements_.data() + i * cols_; }
  [[nodiscard]] std::vector<C>& elements() { return elements_; }

 private:
  std::int64_t rows_ = 0;
  std::int64_t cols_ = 0;
  std::vector<C> elements_;
};

// How an operand is rounded before it is multiplied. split: into high + low, both bfloat16.
enum class Rounding : std::uint8_t { none, bf16, f16, tf32, split };

[[nodiscard]] Rounding rounding_of(Dtype dtype, Fp32Attention fp32);

// An operand of a product. The product of two split operands is high high + high low + low high.
template <class C>
struct Operand {
  Tile<C> high;
  Tile<C> low;  // split only

  // Loads rows first ... first + n - 1 of head h of batch element b: [n, d].
  void load_rows(const Heads& x, std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t n,
                 Rounding rounding);
  // The same rows, transposed: [d, n].
  void load_columns(const Heads& x, std::int64_t b, std::int64_t h, std::int64_t first,
                    std::int64_t n, Rounding rounding);
  // Rounds the values in `high` in place; for split, computes `low`.
  void round(Rounding rounding);
};

// c += a b.  [m, n], [m, k], [k, n]
template <class C>
void add_product(Tile<C>& c, const Operand<C>& a, const Operand<C>& b);
// c += a^T b.  [m, n], [k, m], [k, n]
template <class C>
void add_transposed_product(Tile<C>& c, const Operand<C>& a, const Operand<C>& b);

}  // namespace paceline
