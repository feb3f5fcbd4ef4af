#include "cpu/tiles.h"

#include <bit>
#include <type_traits>

#include "core/error.h"
#include "cpu/rows.h"

namespace paceline {

namespace {

// Rounds the mantissa to 10 bits, to nearest with ties away from zero (PTX's cvt.rna.tf32).
float rounded_to_tf32(float x) {
  constexpr std::uint32_t half = 1U << 12U;
  constexpr std::uint32_t kept = ~((1U << 13U) - 1);
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + half) & kept);
}

float rounded_to_bf16(float x) { return static_cast<float>(bf16(x)); }
float rounded_to_f16(float x) { return static_cast<float>(f16(x)); }

template <class F>
void round_each(std::vector<float>& x, F f) {
  for (float& v : x) v = f(v);
}

// c[i, :] += sum over k of a(i, k) b[k, :], four k at a time, so that c is read and written once
// per four.
template <class C, class A>
void add_rows(Tile<C>& c, std::int64_t depth, A a, const Tile<C>& b) {
  const std::int64_t n = c.cols();
  for (std::int64_t i = 0; i < c.rows(); ++i) {
    C* to = c.row(i);
    std::int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      const C a0 = a(i, k);
      const C a1 = a(i, k + 1);
      const C a2 = a(i, k + 2);
      const C a3 = a(i, k + 3);
      const C* b0 = b.row(k);
      const C* b1 = b.row(k + 1);
      const C* b2 = b.row(k + 2);
      const C* b3 = b.row(k + 3);
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) {
        to[j] += (a0 * b0[j] + a1 * b1[j]) + (a2 * b2[j] + a3 * b3[j]);
      }
    }
    for (; k < depth; ++k) {
      const C a0 = a(i, k);
      const C* b0 = b.row(k);
#pragma omp simd
      for (std::int64_t j = 0; j < n; ++j) to[j] += a0 * b0[j];
    }
  }
}

// Calls multiply(x, y) for each pair of high and low parts whose products sum to a b, small ones
// first.
template <class C, class F>
void for_each_part(const Operand<C>& a, const Operand<C>& b, F multiply) {
  if (a.low.rows() > 0) {
    multiply(a.low, b.high);
    multiply(a.high, b.low);
  }
  multiply(a.high, b.high);
}

}  // namespace

Rounding rounding_of(Dtype dtype, Fp32Attention fp32) {
  switch (dtype) {
    case Dtype::bf16: return Rounding::bf16;
    case Dtype::f16: return Rounding::f16;
    case Dtype::f64: return Rounding::none;
    case Dtype::i32: throw_not_floating(dtype);
    case Dtype::f32: break;
  }
  switch (fp32) {
    case Fp32Attention::exact: return Rounding::none;
    case Fp32Attention::bf16x3: return Rounding::split;
    case Fp32Attention::tf32: return Rounding::tf32;
  }
  throw InternalError("flash attention: unknown float32 mode");
}

template <class C>
void Operand<C>::load_rows(const Heads& x, std::int64_t b, std::int64_t h, std::int64_t first,
                           std::int64_t n, Rounding rounding) {
  high.reset(n, x.head_dim);
  for (std::int64_t i = 0; i < n; ++i) {
    load(high.row(i), x.tensor, x.at(b, first + i, h), x.head_dim);
  }
  round(rounding);
}

template <class C>
void Operand<C>::load_columns(const Heads& x, std::int64_t b, std::int64_t h, std::int64_t first,
                              std::int64_t n, Rounding rounding) {
  high.reset(x.head_dim, n);
  std::vector<C> row(static_cast<std::size_t>(x.head_dim));
  for (std::int64_t i = 0; i < n; ++i) {
    load(row.data(), x.tensor, x.at(b, first + i, h), x.head_dim);
    for (std::int64_t j = 0; j < x.head_dim; ++j) high.row(j)[i] = row[static_cast<std::size_t>(j)];
  }
  round(rounding);
}

template <class C>
void Operand<C>::round(Rounding rounding) {
  if constexpr (std::is_same_v<C, float>) {
    std::vector<float>& x = high.elements();
    switch (rounding) {
      case Rounding::none: break;
      case Rounding::bf16: round_each(x, rounded_to_bf16); break;
      case Rounding::f16: round_each(x, rounded_to_f16); break;
      case Rounding::tf32: round_each(x, rounded_to_tf32); break;
      case Rounding::split:
        low.reset(high.rows(), high.cols());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const float nearest = rounded_to_bf16(x[i]);
          low.elements()[i] = rounded_to_bf16(x[i] - nearest);
          x[i] = nearest;
        }
        break;
    }
  }
}

template <class C>
void add_product(Tile<C>& c, const Operand<C>& a, const Operand<C>& b) {
  for_each_part(a, b, [&](const Tile<C>& x, const Tile<C>& y) {
    add_rows(
        c, x.cols(), [&](std::int64_t i, std::int64_t k) { return x.row(i)[k]; }, y);
  });
}

template <class C>
void add_transposed_product(Tile<C>& c, const Operand<C>& a, const Operand<C>& b) {
  for_each_part(a, b, [&](const Tile<C>& x, const Tile<C>& y) {
    add_rows(
        c, x.rows(), [&](std::int64_t i, std::int64_t k) { return x.row(k)[i]; }, y);
  });
}

template struct Operand<float>;
template struct Operand<double>;
template void add_product(Tile<float>&, const Operand<float>&, const Operand<float>&);
template void add_product(Tile<double>&, const Operand<double>&, const Operand<double>&);
template void add_transposed_product(Tile<float>&, const Operand<float>&, const Operand<float>&);
template void add_transposed_product(Tile<double>&, const Operand<double>&, const Operand<double>&);

}  // namespace paceline
