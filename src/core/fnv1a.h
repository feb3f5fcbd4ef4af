#pragma once
// FNV-1a (Fowler, Noll, Vo; 64 bits): equal words give equal sums, other ones hardly ever.

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
