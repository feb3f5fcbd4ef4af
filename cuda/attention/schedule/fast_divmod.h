#pragma once
// Division by a divisor known before the launch, as a multiplication (Granlund and Montgomery, PLDI
// 1994): three instructions where integer division takes about twenty. A cold kernel waits for each
// of them, because they are not in the instruction cache yet.

#include <cstdint>

namespace paceline {

class FastDivmod {
 public:
  FastDivmod() = default;
  // divisor: 1 or more.
  explicit constexpr FastDivmod(int divisor) : divisor_(divisor) {
    while ((std::int64_t{1} << shift_) < divisor) ++shift_;
    // multiplier = floor(2^(31 + shift) / divisor) + 1. Times the divisor it exceeds 2^(31 + shift)
    // by at most the divisor, hence by at most 2^shift: no quotient of a dividend below 2^31
    // changes.
    const std::uint64_t power = std::uint64_t{1} << (31 + shift_);
    multiplier_ = static_cast<std::uint32_t>(power / static_cast<std::uint64_t>(divisor) + 1);
  }

  [[nodiscard]] constexpr int divisor() const { return divisor_; }

  // dividend: 0 or more.
  friend constexpr int operator/(int dividend, const FastDivmod& d) {
    const std::uint64_t product =
        std::uint64_t{2 * static_cast<std::uint32_t>(dividend)} * d.multiplier_;
    return static_cast<int>(static_cast<std::uint32_t>(product >> 32) >> d.shift_);
  }
  friend constexpr int operator%(int dividend, const FastDivmod& d) {
    return dividend - dividend / d * d.divisor_;
  }

 private:
  int divisor_ = 1;
  int shift_ = 0;
  std::uint32_t multiplier_ = (1U << 31) + 1;
};

}  // namespace paceline
