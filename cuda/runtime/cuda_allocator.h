#pragma once
// A caching allocator: segments from cudaMalloc, split into blocks that are reused in the order of
// the compute stream.

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/memory_ledger.h"
#include "core/non_copyable.h"

namespace paceline {

class CudaAllocator : NonCopyable {
 public:
  explicit CudaAllocator(std::size_t limit) : limit_(limit) {}
  ~CudaAllocator();

  // Best fit among free blocks of the same class: small (below 1 MiB, in segments of 2 MiB) or
  // large (in segments of 20 MiB or, if that is larger, of the size requested). Throws OutOfMemory,
  // or InternalError if the allocator is frozen and no free block is large enough.
  [[nodiscard]] std::shared_ptr<void> allocate(Allocation asked, MemoryLedger& ledger);
  void freeze() { frozen_ = true; }
  // Unfreezes, and returns segments without a block in use to the driver.
  void trim();
  [[nodiscard]] std::size_t reserved_bytes() const { return reserved_; }
  // Whether no segment was added or removed since the last call. If so, the same requests get the
  // same addresses, given the same blocks in use.
  [[nodiscard]] bool reserved_unchanged() { return std::exchange(reserved_unchanged_, true); }
  [[nodiscard]] std::size_t limit() const { return limit_; }

 private:
  struct Block {
    std::byte* address;
    std::size_t bytes;
    bool free;
    bool small;
  };
  using Blocks = std::list<Block>;  // of one segment, in address order
  struct BySize {
    bool operator()(const Blocks::iterator& a, const Blocks::iterator& b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->address < b->address;
    }
  };
  using FreeBlocks = std::set<Blocks::iterator, BySize>;

  Blocks::iterator find(std::size_t bytes, bool small, const std::string& scope,
                        const MemoryLedger& ledger);
  void add_segment(std::size_t bytes, bool small);
  void split(Blocks::iterator block, std::size_t bytes);
  void release(Blocks::iterator block);
  void give_back_unused();
  [[nodiscard]] FreeBlocks& free_blocks(bool small) { return small ? small_free_ : large_free_; }
  [[nodiscard]] Blocks& segment_of(const Block& block);

  std::size_t limit_;
  std::size_t reserved_ = 0;
  bool reserved_unchanged_ = true;
  bool frozen_ = false;
  std::map<std::byte*, Blocks> segments_;  // by address
  FreeBlocks small_free_;
  FreeBlocks large_free_;
};

}  // namespace paceline
