#include "cuda/gemm/product.h"

#include <fmt/format.h>

namespace paceline {

namespace {

Product::Operand operand(const Matrix& m) {
  Product::Operand o{.dtype = m.tensor.dtype,
                     .rows = m.rows,
                     .cols = m.cols,
                     .row_stride = m.row_stride,
                     .alignment = alignment_of(m),
                     .transposed = m.transposed};
  for (std::size_t i = 0; i < o.batch_stride.size(); ++i) {
    o.batch_stride.at(i) = m.batch.at(i) > 1 ? m.batch_stride.at(i) : 0;
  }
  return o;
}

// "bfloat16[2048,1600]^T stride 1600,0,0 align 256"
std::string text_of(const Product::Operand& o) {
  return fmt::format("{}[{},{}]{} stride {},{},{} align {}", name_of(o.dtype), o.rows, o.cols,
                     o.transposed ? "^T" : "", o.row_stride, o.batch_stride[0], o.batch_stride[1],
                     o.alignment);
}

}  // namespace

std::uint32_t alignment_of(const Matrix& m) {
  constexpr std::uint64_t most = 256;
  const std::uint64_t size = size_of(m.tensor.dtype);
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(m.tensor.data) | most;
  bits |= static_cast<std::uint64_t>(m.row_stride) * size;
  for (const std::int64_t stride : m.batch_stride)
    bits |= static_cast<std::uint64_t>(stride) * size;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

Product::Product(const Matrix& c_matrix, const Matrix& a_matrix, const Matrix& b_matrix,
                 bool reads_c, int on_multiprocessors)
    : c(operand(c_matrix)),
      a(operand(a_matrix)),
      b(operand(b_matrix)),
      batch(c_matrix.batch),
      adds(reads_c),
      multiprocessors(on_multiprocessors) {}

std::string Product::text() const {
  return fmt::format("{} {} {} * {} batch {},{} multiprocessors {}", text_of(c), adds ? "+=" : "=",
                     text_of(a), text_of(b), batch[0], batch[1], multiprocessors);
}

}  // namespace paceline
