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

CpuAllocator::~CpuAllocator() { free_kept(); }

std::shared_ptr<void> CpuAllocator::allocate(std::size_t bytes, MemoryKind kind,
                                             const std::string& scope) {
  const std::size_t size = std::max(alignment, (bytes + alignment - 1) / alignment * alignment);
  void* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& kept = kept_[size];  // free_kept() does not invalidate this reference
    if (kept.empty()) {
      block = take_new(size, scope);
    } else {
      block = kept.back();
      kept.pop_back();
    }
    ledger_.allocated(block, {.bytes = size, .kind = kind, .scope = scope});
  }
  return {block, [this, size](void* p) { release(p, size); }};
}

void* CpuAllocator::take_new(std::size_t bytes, const std::string& scope) {
  if (frozen_) {
    throw InternalError(fmt::format(
        "an allocation of {} bytes in '{}' was not reserved by the rehearsal", bytes, scope));
  }
  const auto fits = [&] { return bytes <= limit_ && reserved_ <= limit_ - bytes; };
  settled_ = false;
  if (!fits()) free_kept();
  void* block = fits() ? std::aligned_alloc(alignment, bytes) : nullptr;
  if (block == nullptr) throw OutOfMemory(bytes, ledger_, limit_, scope);
  reserved_ += bytes;
  return block;
}

void CpuAllocator::release(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ledger_.released(block);
  kept_[bytes].push_back(block);
}

void CpuAllocator::free_kept() {
  for (auto& [bytes, blocks] : kept_) {
    for (void* block : blocks) std::free(block);
    reserved_ -= bytes * blocks.size();
    blocks.clear();
  }
}

bool CpuAllocator::settled() {
  const std::lock_guard lock(mutex_);
  return std::exchange(settled_, true);
}

void CpuAllocator::freeze() {
  const std::lock_guard lock(mutex_);
  frozen_ = true;
}

void CpuAllocator::trim() {
  const std::lock_guard lock(mutex_);
  free_kept();
  frozen_ = false;
}

std::size_t CpuAllocator::reserved_bytes() const {
  const std::lock_guard lock(mutex_);
  return reserved_;
}

}  // namespace paceline
