#pragma once
// A cold cache: before each measurement, twice the size of the last-level cache is written.

#include <algorithm>
#include <cstdint>

#include "core/device.h"
#include "harness/run_options.h"

namespace paceline {

// Bytes of the device's last-level cache, at least 32 MiB; 32 MiB without a device.
[[nodiscard]] inline std::int64_t cache_bytes(const Device* device) {
  constexpr std::int64_t least = 32 << 20;
  if (device == nullptr) return least;
  return std::max(least, static_cast<std::int64_t>(device->info().cache_bytes));
}
// Bytes that a flush writes; 0 for a warm cache.
[[nodiscard]] inline std::int64_t flush_bytes(CacheState state, const Device* device) {
  return state == CacheState::warm ? 0 : 2 * cache_bytes(device);
}

class CacheFlush {
 public:
  // Allocates flush_bytes(). Throws OutOfMemory.
  CacheFlush(Device& device, CacheState state) : device_(device) {
    if (state == CacheState::warm) return;
    const Scope scope(device.scopes(), name);
    buffer_ = device.allocate({flush_bytes(state, &device) / 4}, Dtype::i32, MemoryKind::workspace);
  }

  // Enqueues the flush on the compute stream; nothing for a warm cache.
  void enqueue() const {
    if (!is_cold()) return;
    const Scope scope(device_.scopes(), name);
    device_.zero(buffer_);
  }
  [[nodiscard]] bool is_cold() const { return !buffer_.empty(); }

 private:
  static constexpr auto name = "cache flush";

  Device& device_;
  Array buffer_;
};

}  // namespace paceline
