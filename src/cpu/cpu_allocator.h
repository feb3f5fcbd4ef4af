#pragma once
// The CPU device's memory: a caching allocator over aligned_alloc.

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/memory_ledger.h"
#include "core/non_copyable.h"

namespace paceline {

// Sizes are rounded up to multiples of 256 bytes; the ledger and the limit count rounded sizes. A
// released block is cached and reused for the next request of the same rounded size; blocks are
// never split. Thread-safe. The ledger and the allocator must outlive every block.
class CpuAllocator : NonCopyable {
 public:
  // limit: maximum bytes of blocks in use and cached blocks together
  CpuAllocator(std::size_t limit, MemoryLedger& ledger) : limit_(limit), ledger_(ledger) {}
  ~CpuAllocator();

  // The block is released with the last copy of the pointer. Throws OutOfMemory; after freeze(),
  // InternalError if no cached block has the size.
  [[nodiscard]] std::shared_ptr<void> allocate(Allocation asked);
  void freeze();
  void trim();  // frees the cached blocks and ends freeze()
  [[nodiscard]] std::size_t reserved_bytes() const;
  // True if no new block was allocated since the last call.
  [[nodiscard]] bool reserved_unchanged();

 private:
  [[nodiscard]] void* take_new(std::size_t bytes, const std::string& scope);
  void release(void* block, std::size_t bytes);
  void empty_cache();

  const std::size_t limit_;
  MemoryLedger& ledger_;
  mutable std::mutex mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_blocks_;  // by rounded size
  std::size_t reserved_ = 0;                                         // bytes in use and cached
  bool reserved_unchanged_ = true;
  bool frozen_ = false;
};

}  // namespace paceline
