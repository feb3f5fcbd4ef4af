#pragma once
// Division by a number that is known before the launch, as a multiplication (Granlund and
// Montgomery, PLDI 1994): three instructions where a GPU's division has twenty, which a kernel that
// is not in the cache yet waits for.

#include <cstdint>

namespace paceline {

class Divisor {
 public:
  Divisor() = default;
  // By 1 or more.
  explicit constexpr Divisor(int n) : n_(n) {
    while ((std::int64_t{1} << shift_) < n) ++shift_;
    // The next whole number above 2^(31 + shift) / n: times n it is too large by at most n, which
    // 2^shift is not less than, and so changes no quotient of what is below 2^31.
    const std::uint64_t power = std::uint64_t{1} << (31 + shift_);
    multiplier_ = static_cast<std::uint32_t>(power / static_cast<std::uint64_t>(n) + 1);
  }

  [[nodiscard]] constexpr int value() const { return n_; }

  // Of 0 or more.
  friend constexpr int operator/(int x, const Divisor& d) {
    const std::uint64_t product = std::uint64_t{2 * static_cast<std::uint32_t>(x)} * d.multiplier_;
    return static_cast<int>(static_cast<std::uint32_t>(product >> 32) >> d.shift_);
  }
  friend constexpr int operator%(int x, const Divisor& d) { return x - x / d * d.n_; }

 private:
  int n_ = 1;
  int shift_ = 0;
  std::uint32_t multiplier_ = (1U << 31) + 1;
};

}  // namespace paceline
