#pragma once
// What a case costs on paper.

#include <string>

namespace paceline {

struct Prediction {
  double flops = 0;                 // of one rank and repetition
  double bytes = 0;                 // moved to and from memory at least, likewise
  double memory_bytes = 0;          // the device's peak
  double flush_bytes = 0;           // beside that peak: of the buffer that flushes the cache
  std::string memory_formula = {};  // of memory_bytes, where it is short: "2 B T e = 8.00 MB"

  [[nodiscard]] double needed_bytes() const { return memory_bytes + flush_bytes; }
};

}  // namespace paceline
