#pragma once
// The hash FNV-1a (Fowler, Noll, Vo; 64 bits), over bytes or over 64-bit words.

#include <cstdint>

namespace paceline {

class Fnv1a {
 public:
  void add(std::uint64_t word) { sum_ = (sum_ ^ word) * 0x100000001b3U; }
  [[nodiscard]] std::uint64_t sum() const { return sum_; }

 private:
  std::uint64_t sum_ = 0xcbf29ce484222325U;
};

}  // namespace paceline
