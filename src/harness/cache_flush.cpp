#include "harness/cache_flush.h"

#include <algorithm>

namespace paceline {

namespace {

constexpr auto name = "cache flush";

}  // namespace

std::int64_t cache_bytes(const Device* device) {
  constexpr std::int64_t least = 32 << 20;
  if (device == nullptr) return least;
  return std::max(least, static_cast<std::int64_t>(device->info().cache_bytes));
}

std::int64_t flush_bytes(CacheState state, const Device* device) {
  return state == CacheState::warm ? 0 : 2 * cache_bytes(device);
}

CacheFlush::CacheFlush(Device& device, CacheState state) : device_(device) {
  if (state == CacheState::warm) return;
  const Scope scope(device.scopes(), name);
  buffer_ = device.allocate({flush_bytes(state, &device) / 4}, Dtype::i32, MemoryKind::workspace);
}

void CacheFlush::enqueue() const {
  if (!is_cold()) return;
  const Scope scope(device_.scopes(), name);
  device_.zero(buffer_);
}

}  // namespace paceline
