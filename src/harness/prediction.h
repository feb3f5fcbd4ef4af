#pragma once
// The cost of a case by closed forms.

#include <string>

namespace paceline {

struct Prediction {
  double flops = 0;                 // per rank and repetition
  double bytes = 0;                 // least memory traffic, per rank and repetition
  double memory_bytes = 0;          // peak of the device
  double flush_bytes = 0;           // the buffer that flushes the cache, in addition to that peak
  std::string memory_formula = {};  // for memory_bytes, if it is short: "2 B T e = 8.00 MB"

  [[nodiscard]] double needed_bytes() const { return memory_bytes + flush_bytes; }
};

}  // namespace paceline
