#pragma once
// Building blocks of the CPU's operations. Tensors of any floating-point dtype are accessed as
// ranges of float or double: directly if that is their dtype, otherwise through a small conversion
// buffer. Each operation is therefore compiled twice, not once per combination of dtypes.
//
// Results do not depend on the number of threads: one thread computes a whole row or a whole block
// of columns, and sums are in double in a fixed order.

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <utility>
#include <vector>

#include "core/non_copyable.h"
#include "core/tensor.h"

namespace paceline {

// Converts elements first ... first + n - 1 of the tensor's memory (its shape is ignored) to C,
// float or double, and back. Rounds to nearest; a double is converted to a half type through float.
template <class C>
void load(C* to, const Tensor& from, std::int64_t first, std::int64_t n);
template <class C>
void store(const Tensor& to, std::int64_t first, const C* from, std::int64_t n);

// Below this many elements, waking other threads takes longer than they save.
inline constexpr std::int64_t serial_below = 1 << 13;

// Calls f.template operator()<C>() with the type in which an operation on these tensors computes:
// double if one of them is float64, otherwise float.
template <class F>
void with_compute_type(std::initializer_list<Tensor> tensors, F&& f) {
  bool wide = false;
  for (const Tensor& x : tensors) {
    if (x.dtype == Dtype::i32) throw_not_floating(x.dtype);
    wide = wide || x.dtype == Dtype::f64;
  }
  if (wide) return f.template operator()<double>();
  f.template operator()<float>();
}

template <class C>
class Reader {
 public:
  // longest: maximum number of elements per read()
  Reader(const Tensor& x, std::int64_t longest) : x_(x) {
    if (x.dtype != dtype_of<C>) buffer_.resize(static_cast<std::size_t>(longest));
  }
  // Elements first ... first + n - 1; valid until the next call.
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
  // A buffer for elements first, first + 1, ...; flush(n) writes n of them to the tensor.
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

// y[i] = f(x[0][i], x[1][i], ...). y may alias one of x.
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

// Reads a tensor's rows. A tensor of one row is broadcast to all rows and read once.
template <class C>
class RowReader : NonCopyable {
 public:
  // rows: rows of the result
  RowReader(const Tensor& x, std::int64_t rows)
      : cols_(x.cols()),
        reader_(x, cols_),
        only_(rows > 1 && x.numel() == cols_ ? reader_.read(0, cols_) : nullptr) {}
  // The first n elements of row r, or all if it has fewer.
  const C* read(std::int64_t r, std::int64_t n) {
    return only_ != nullptr ? only_ : reader_.read(r * cols_, std::min(cols_, n));
  }

 private:
  std::int64_t cols_;
  Reader<C> reader_;
  const C* only_;
};

struct AllColumns {
  std::int64_t operator()(std::int64_t) const { return std::numeric_limits<std::int64_t>::max(); }
};

// Calls work(r, y row, x rows...) for every row: y[r, :] from x[0][r, :], x[1][r, :], ... y may
// alias one of x. Only the first seen(r) elements of row r of each x are read.
template <class C, std::size_t N, class F, class Seen = AllColumns>
void for_each_row(const Tensor& y, const std::array<Tensor, N>& x, F work, Seen seen = {}) {
  const std::int64_t rows = y.rows();
  const std::int64_t cols = y.cols();
  std::int64_t most = y.numel();
  for (const Tensor& t : x) most = std::max(most, t.numel());
  [&]<std::size_t... I>(std::index_sequence<I...>) {
#pragma omp parallel if (most >= serial_below)
    {
      std::array<RowReader<C>, N> readers{RowReader<C>(x[I], rows)...};
      Writer<C> writer(y, cols);
#pragma omp for schedule(static)
      for (std::int64_t r = 0; r < rows; ++r) {
        work(r, writer.at(r * cols), readers[I].read(r, seen(r))...);
        writer.flush(cols);
      }
    }
  }(std::make_index_sequence<N>{});
}

// [R] as [R, 1]: one element per row.
[[nodiscard]] inline Tensor one_per_row(const Tensor& x) { return x.reshape({x.numel(), 1}); }

// Sums over rows, r ascending: y[j] (+)= sum over r of term(x[0][r, j], x[1][r, j], ...), where
// term = of_row(r).
inline constexpr std::int64_t column_block = 64;

template <class C, std::size_t N, class F>
void sum_rows(const Tensor& y, bool accumulate, const std::array<Tensor, N>& x, F of_row) {
  const std::int64_t rows = x[0].rows();
  const std::int64_t cols = y.numel();
  [&]<std::size_t... I>(std::index_sequence<I...>) {
#pragma omp parallel if (rows * cols >= serial_below)
    {
      std::array<Reader<C>, N> readers{Reader<C>(x[I], column_block)...};
#pragma omp for schedule(static)
      for (std::int64_t first = 0; first < cols; first += column_block) {
        const std::int64_t n = std::min(column_block, cols - first);
        std::array<double, column_block> sums{};
        if (accumulate) load(sums.data(), y, first, n);
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto term = of_row(r);
          const std::array<const C*, N> in{readers[I].read(r * cols + first, n)...};
          for (std::int64_t j = 0; j < n; ++j) {
            sums[static_cast<std::size_t>(j)] += term(in[I][j]...);
          }
        }
        store(y, first, sums.data(), n);
      }
    }
  }(std::make_index_sequence<N>{});
}

}  // namespace paceline
