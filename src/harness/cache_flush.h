#pragma once
// A cold cache: before each measurement, twice the size of the last-level cache is written.

#include <cstdint>

#include "core/device.h"
#include "harness/run_options.h"

namespace paceline {

// Bytes of the device's last-level cache, at least 32 MiB; 32 MiB without a device.
[[nodiscard]] std::int64_t cache_bytes(const Device* device);
// Bytes that a flush writes; 0 for a warm cache.
[[nodiscard]] std::int64_t flush_bytes(CacheState state, const Device* device);

class CacheFlush {
 public:
  // Allocates flush_bytes(). Throws OutOfMemory.
  CacheFlush(Device& device, CacheState state);

  // Enqueues the flush on the compute stream; nothing for a warm cache.
  void enqueue() const;
  [[nodiscard]] bool is_cold() const { return !buffer_.empty(); }

 private:
  Device& device_;
  Array buffer_;
};

}  // namespace paceline
