#pragma once
// Scratch: memory that a kernel writes and the next one reads.

#include <cstdint>

#include "core/device.h"

namespace paceline {

class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  // Memory for this many floats, valid until the next call. It grows during the rehearsal, then
  // stays.
  [[nodiscard]] float* floats(std::int64_t count);

 private:
  Device& device_;
  Array memory_;
};

}  // namespace paceline
