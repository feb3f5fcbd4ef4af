#include "cuda/runtime/cuda_allocator.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/device.h"
#include "core/units.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

namespace {

constexpr std::size_t alignment = 512;  // bytes, of every block; cudaMalloc aligns at least as much
constexpr std::size_t small_limit = std::size_t{1} << 20U;
constexpr std::size_t small_segment = std::size_t{2} << 20U;
constexpr std::size_t large_segment = std::size_t{20} << 20U;
constexpr std::size_t segment_multiple = std::size_t{2} << 20U;

std::size_t rounded(std::size_t bytes, std::size_t multiple) {
  return (std::max<std::size_t>(bytes, 1) + multiple - 1) / multiple * multiple;
}

}  // namespace

CudaAllocator::~CudaAllocator() {
  for (const auto& [address, blocks] : segments_) cudaFree(address);
}

std::shared_ptr<void> CudaAllocator::allocate(Allocation asked, MemoryLedger& ledger) {
  asked.bytes = rounded(asked.bytes, alignment);
  const Blocks::iterator block = find(asked.bytes, asked.bytes < small_limit, asked.scope, ledger);
  free_blocks(block->small).erase(block);
  split(block, asked.bytes);
  block->free = false;
  ledger.allocated(block->address, std::move(asked));
  return {block->address, [this, block, &ledger](void* address) {
            ledger.released(address);
            release(block);
          }};
}

// The smallest free block that is large enough; from a new segment if there is none.
CudaAllocator::Blocks::iterator CudaAllocator::find(std::size_t bytes, bool small,
                                                    const std::string& scope,
                                                    const MemoryLedger& ledger) {
  const auto best_fit = [&] {
    Blocks wanted{{nullptr, bytes, true, small}};
    return free_blocks(small).lower_bound(wanted.begin());
  };
  if (const auto found = best_fit(); found != free_blocks(small).end()) return *found;
  if (frozen_) {
    throw InternalError(fmt::format(
        "an allocation of {} bytes in '{}' was not reserved by the rehearsal", bytes, scope));
  }
  const std::size_t segment =
      small ? small_segment : std::max(large_segment, rounded(bytes, segment_multiple));
  if (reserved_ + segment > limit_) give_back_unused();
  if (reserved_ + segment > limit_) throw OutOfMemory(bytes, ledger, limit_, scope);
  void* address = nullptr;
  if (cudaMalloc(&address, segment) != cudaSuccess) {
    cudaGetLastError();  // out of memory is handled: clear the error
    give_back_unused();
    if (cudaMalloc(&address, segment) != cudaSuccess) {
      cudaGetLastError();
      throw OutOfMemory(bytes, ledger, std::min(limit_, reserved_ + free_memory()), scope);
    }
  }
  reserved_ += segment;
  reserved_unchanged_ = false;
  Blocks& blocks = segments_[static_cast<std::byte*>(address)];
  blocks.push_back({static_cast<std::byte*>(address), segment, true, small});
  return *free_blocks(small).insert(blocks.begin()).first;
}

// Shortens the block to `bytes`; the rest becomes a free block after it.
void CudaAllocator::split(Blocks::iterator block, std::size_t bytes) {
  if (block->bytes == bytes) return;
  Blocks& blocks = segment_of(*block);
  const auto rest = blocks.insert(
      std::next(block), {block->address + bytes, block->bytes - bytes, true, block->small});
  block->bytes = bytes;
  free_blocks(block->small).insert(rest);
}

// The block can be reused at once: work that still uses it is ahead of its next user in the compute
// stream.
void CudaAllocator::release(Blocks::iterator block) {
  Blocks& blocks = segment_of(*block);
  FreeBlocks& free = free_blocks(block->small);
  block->free = true;
  if (const auto next = std::next(block); next != blocks.end() && next->free) {
    free.erase(next);
    block->bytes += next->bytes;
    blocks.erase(next);
  }
  if (block != blocks.begin() && std::prev(block)->free) {
    const auto previous = std::prev(block);
    free.erase(previous);
    previous->bytes += block->bytes;
    blocks.erase(block);
    block = previous;
  }
  free.insert(block);
}

CudaAllocator::Blocks& CudaAllocator::segment_of(const Block& block) {
  return std::prev(segments_.upper_bound(block.address))->second;
}

void CudaAllocator::trim() {
  frozen_ = false;
  give_back_unused();
}

void CudaAllocator::give_back_unused() {
  for (auto it = segments_.begin(); it != segments_.end();) {
    Blocks& blocks = it->second;
    if (blocks.size() > 1 || !blocks.front().free) {
      ++it;
      continue;
    }
    free_blocks(blocks.front().small).erase(blocks.begin());
    reserved_ -= blocks.front().bytes;
    CUDA_CHECK(cudaFree(it->first));
    it = segments_.erase(it);
  }
}

}  // namespace paceline
