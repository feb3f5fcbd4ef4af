#pragma once
// CpuDevice: host memory, an inline stream for compute (work runs on the calling thread), and
// worker streams for communication, all-gathers and the optimizer. Only the thread that constructed
// the device may call it. It must outlive its arrays, ops and events.

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "core/memory_ledger.h"
#include "core/non_copyable.h"
#include "cpu/cpu_stream.h"

namespace paceline {

// A caching allocator over aligned_alloc. Sizes are rounded up to multiples of 256 bytes; the
// ledger and the limit count rounded sizes. A released block is cached and reused for the next
// request of the same rounded size; blocks are never split. Thread-safe. The ledger and the
// allocator must outlive every block.
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

class CpuDevice : public Device {
 public:
  // memory_limit: maximum bytes that allocate() may reserve; threads: of OpenMP and the BLAS
  CpuDevice(std::size_t memory_limit, int threads);

  [[nodiscard]] DeviceInfo info() const override { return info_; }

  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override;
  void freeze() override { allocator_.freeze(); }
  void trim() override { allocator_.trim(); }
  [[nodiscard]] bool reserved_unchanged() override { return allocator_.reserved_unchanged(); }
  [[nodiscard]] std::size_t reserved_bytes() const override { return allocator_.reserved_bytes(); }
  [[nodiscard]] std::size_t driver_bytes() const override;

  [[nodiscard]] Stream& compute_stream() override { return compute_; }
  [[nodiscard]] Stream& communication_stream() override { return communication_; }
  [[nodiscard]] Stream& gather_stream() override { return gather_; }
  [[nodiscard]] Stream& optimizer_stream() override { return optimizer_; }
  void synchronize() override {
    communication_.synchronize();
    gather_.synchronize();
    optimizer_.synchronize();
  }

  // Each launch of the graph calls `work`; capture() does not call it.
  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& stream, std::function<void()> work) override;

  // An empty tensor's pointer may be null, which memcpy and memset forbid.
  void to_device(const Tensor& device, const void* host) override {
    if (device.bytes() > 0) std::memcpy(device.data, host, device.bytes());
  }
  void to_host(void* host, const Tensor& device) override {
    if (device.bytes() > 0) std::memcpy(host, device.data, device.bytes());
  }
  void zero(const Tensor& device) override {
    if (device.bytes() > 0) std::memset(device.data, 0, device.bytes());
  }

  [[nodiscard]] std::unique_ptr<Ops> make_ops(const OpsConfig& config) override;

  // For half types, the time includes conversion to float and back.
  [[nodiscard]] std::vector<double> gemm_rates(const Precision& precision) override;
  [[nodiscard]] std::vector<double> copy_rates() override;
  [[nodiscard]] std::unique_ptr<Sensors> sensors() const override;
  [[nodiscard]] std::optional<double> datasheet_peak(const Precision&) const override { return {}; }

 private:
  const int threads_;
  const DeviceInfo info_;
  CpuAllocator allocator_;
  InlineStream compute_;
  // Declared last, so that their threads end before the allocator is destroyed.
  WorkerStream communication_;
  WorkerStream gather_;
  WorkerStream optimizer_;
};

}  // namespace paceline
