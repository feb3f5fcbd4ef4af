#include "cpu/cpu_allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/device.h"
#include "core/error.h"

namespace paceline {

namespace {
constexpr std::size_t alignment = 256;  // bytes
}

CpuAllocator::~CpuAllocator() { empty_cache(); }

std::shared_ptr<void> CpuAllocator::allocate(Allocation asked) {
  const std::size_t size =
      std::max(alignment, (asked.bytes + alignment - 1) / alignment * alignment);
  asked.bytes = size;
  void* address = nullptr;
  {
    const std::lock_guard lock(mutex_);
    // take_new() may call empty_cache(), which does not invalidate this reference.
    std::vector<void*>& blocks = free_blocks_[size];
    if (blocks.empty()) {
      address = take_new(size, asked.scope);
    } else {
      address = blocks.back();
      blocks.pop_back();
    }
    ledger_.allocated(address, std::move(asked));
  }
  return {address, [this, size](void* p) { release(p, size); }};
}

void* CpuAllocator::take_new(std::size_t bytes, const std::string& scope) {
  if (frozen_) {
    throw InternalError(fmt::format(
        "an allocation of {} bytes in '{}' was not reserved by the rehearsal", bytes, scope));
  }
  const auto fits = [&] { return bytes <= limit_ && reserved_ <= limit_ - bytes; };
  reserved_unchanged_ = false;
  if (!fits()) empty_cache();
  void* block = fits() ? std::aligned_alloc(alignment, bytes) : nullptr;
  if (block == nullptr) throw OutOfMemory(bytes, ledger_, limit_, scope);
  reserved_ += bytes;
  return block;
}

void CpuAllocator::release(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ledger_.released(block);
  free_blocks_[bytes].push_back(block);
}

void CpuAllocator::empty_cache() {
  for (auto& [bytes, blocks] : free_blocks_) {
    for (void* block : blocks) std::free(block);
    reserved_ -= bytes * blocks.size();
    blocks.clear();
  }
}

bool CpuAllocator::reserved_unchanged() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reserved_unchanged_, true);
}

void CpuAllocator::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void CpuAllocator::trim() {
  const std::lock_guard lock(mutex_);
  empty_cache();
  frozen_ = false;
}

std::size_t CpuAllocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace paceline
