#pragma once
// Scratch: device memory that one kernel writes and the next one reads.

#include <cstdint>

#include "core/device.h"

namespace paceline {

class Scratch {
 public:
  explicit Scratch(Device& device) : device_(device) {}

  // Memory for `count` floats, valid until the next call. It grows only during the rehearsal.
  [[nodiscard]] float* floats(std::int64_t count);

 private:
  Device& device_;
  Array memory_;
};

}  // namespace paceline
