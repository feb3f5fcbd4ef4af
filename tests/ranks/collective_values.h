#pragma once
// Inputs and expected results of collectives, in double.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/communicator.h"
#include "core/dtype.h"

namespace paceline {

inline constexpr double largest_input = 5;  // for sums; n times that for means

// Integers that every dtype represents exactly, together with all sums, products and means over 6
// ranks.
inline double input(ReduceOp op, Dtype dtype, int n, int rank, std::int64_t i) {
  const auto small = static_cast<double>((7 * rank + 3 * i) % 11 - 5);
  constexpr std::array<double, 4> factors = {1, 2, -1, -2};
  if (op == ReduceOp::prod) {
    return factors.at(static_cast<std::size_t>((rank + i) % 4)) * (i % n == rank ? 3 : 1);
  }
  return op == ReduceOp::avg && dtype != Dtype::i32 ? n * small : small;
}

inline double reduced(ReduceOp op, Dtype dtype, int n, std::int64_t i) {
  double result = input(op, dtype, n, 0, i);
  for (int rank = 1; rank < n; ++rank) {
    const double x = input(op, dtype, n, rank, i);
    switch (op) {
      case ReduceOp::prod: result *= x; break;
      case ReduceOp::min: result = std::min(result, x); break;
      case ReduceOp::max: result = std::max(result, x); break;
      case ReduceOp::sum:
      case ReduceOp::avg: result += x; break;
    }
  }
  return op == ReduceOp::avg ? std::trunc(result / n) : result;
}

// For collectives that only move data: values differ between ranks and parts, and are exact in
// every dtype.
inline double moved(int rank, std::int64_t i) {
  return static_cast<double>((37 * rank + 11 * i) % 251 - 125);
}

}  // namespace paceline
