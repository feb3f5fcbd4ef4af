#pragma once
// What the CPU's operations are written with: tensors of any floating dtype are read and written in
// ranges of float or double, directly where that is how they are stored, else through a small
// buffer. So each operation is compiled twice, not once per combination of dtypes.
//
// Results do not depend on the number of threads: a row, or a block of columns, belongs to one
// thread, and sums are taken in double in a fixed order.

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "core/tensor.h"
#include "cpu/convert.h"

namespace paceline {

// Below this many elements, waking the other threads costs more than they save.
inline constexpr std::int64_t serial_below = 1 << 13;

// Calls f.template operator()<C>() with the type that an operation on these dtypes computes in.
template <class F>
void with_compute_type(std::initializer_list<Dtype> dtypes, F&& f) {
  bool wide = false;
  for (const Dtype d : dtypes) {
    switch (d) {
      case Dtype::f64: wide = true; break;
      case Dtype::f32:
      case Dtype::bf16:
      case Dtype::f16: break;
      case Dtype::i32: throw_not_floating(d);
    }
  }
  if (wide) {
    f.template operator()<double>();
  } else {
    f.template operator()<float>();
  }
}

template <class C>
class Reader {
 public:
  // longest: the most elements that are read at once
  Reader(const Tensor& x, std::int64_t longest) : x_(x) {
    if (x.dtype != dtype_of<C>) buffer_.resize(static_cast<std::size_t>(longest));
  }
  // Elements first ... first + n - 1, until the next call.
  const C* read(std::int64_t first, std::int64_t n) {
    if (x_.dtype == dtype_of<C>) return static_cast<const C*>(x_.data) + first;
    load(buffer_.data(), x_, first, n);
    return buffer_.data();
  }

 private:
  Tensor x_;
  std::vector<C> buffer_;
};

template <class C>
class Writer {
 public:
  Writer(const Tensor& y, std::int64_t longest) : y_(y) {
    if (y.dtype != dtype_of<C>) buffer_.resize(static_cast<std::size_t>(longest));
  }
  // Where elements first, first + 1, ... go; they are in the tensor after flush(n).
  C* at(std::int64_t first) {
    first_ = first;
    return y_.dtype == dtype_of<C> ? static_cast<C*>(y_.data) + first : buffer_.data();
  }
  void flush(std::int64_t n) {
    if (y_.dtype != dtype_of<C>) store(y_, first_, buffer_.data(), n);
  }

 private:
  Tensor y_;
  std::vector<C> buffer_;
  std::int64_t first_ = 0;
};

template <class C>
C element(const Tensor& x, std::int64_t i) {
  C value{};
  load(&value, x, i, 1);
  return value;
}

template <class C>
void set_element(const Tensor& x, std::int64_t i, C value) {
  store(x, i, &value, 1);
}

// y[i] = f(x[0][i], x[1][i], ...); y may be one of x.
template <class C, std::size_t N, class F>
void map(const Tensor& y, const std::array<Tensor, N>& x, F f) {
  constexpr std::int64_t piece = 2048;
  const std::int64_t n = y.numel();
  [&]<std::size_t... I>(std::index_sequence<I...>) {
#pragma omp parallel if (n >= serial_below)
    {
      [[maybe_unused]] std::array<Reader<C>, N> readers{Reader<C>(x[I], piece)...};
      Writer<C> writer(y, piece);
#pragma omp for schedule(static)
      for (std::int64_t first = 0; first < n; first += piece) {
        const std::int64_t count = std::min(piece, n - first);
        const std::array<const C*, N> in{readers[I].read(first, count)...};
        C* out = writer.at(first);
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) out[i] = f(in[I][i]...);
        writer.flush(count);
      }
    }
  }(std::make_index_sequence<N>{});
}

// Sums over rows: out[j] (+)= sum over r of term(r, j), in the order of the rows.
// make_terms() makes one thread's add(r, first, n, sums), which adds row r's terms of columns
// first ... first + n - 1 (at most column_block of them) to `sums`.
inline constexpr std::int64_t column_block = 64;

template <class C, class F>
void sum_rows(const Tensor& out, bool accumulate, std::int64_t rows, F make_terms) {
  const std::int64_t cols = out.numel();
#pragma omp parallel if (rows * cols >= serial_below)
  {
    auto add = make_terms();
#pragma omp for schedule(static)
    for (std::int64_t first = 0; first < cols; first += column_block) {
      const std::int64_t n = std::min(column_block, cols - first);
      std::array<double, column_block> sums{};
      if (accumulate) load(sums.data(), out, first, n);
      for (std::int64_t r = 0; r < rows; ++r) add(r, first, n, sums.data());
      store(out, first, sums.data(), n);
    }
  }
}

}  // namespace paceline
