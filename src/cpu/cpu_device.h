#pragma once
// The CPU device: its memory, streams and sensors.

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/device.h"
#include "core/memory_ledger.h"
#include "core/non_copyable.h"
#include "core/sensors.h"

namespace paceline {

// Bytes that this process can still allocate without swapping: the smaller of MemAvailable
// (/proc/meminfo) and what its control groups (v2 or v1) leave. Throws EnvironmentError if neither
// can be read. root: "/", or another folder in tests.
[[nodiscard]] std::size_t available_memory(const std::filesystem::path& root = "/");

// Total bytes of all last-level caches, from /sys/devices/system/cpu; 0 if not listed there.
[[nodiscard]] std::size_t last_level_cache(const std::filesystem::path& root = "/");

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

// Work runs immediately on the calling thread; its exceptions reach the caller.
class InlineStream final : public Stream {
 public:
  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override { event->synchronize(); }
  void follow(Stream& other) override { wait(other.record()); }
  void enqueue(std::function<void()> host_function) override { host_function(); }
  void synchronize() override {}
};

// One thread executes a queue in order. The first enqueue starts it; the destructor waits for the
// queue to drain and joins it. After a host function has thrown, later ones are dropped until
// synchronize() has rethrown the exception; events are still reached, so that no waiter hangs.
class WorkerStream final : public Stream {
 public:
  WorkerStream() = default;
  ~WorkerStream() override;

  [[nodiscard]] EventPtr record() override;
  void wait(const EventPtr& event) override;
  void follow(Stream& other) override { wait(other.record()); }
  void enqueue(std::function<void()> host_function) override;
  void synchronize() override;

 private:
  void push(std::function<void()> work);
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr error_;
  bool ending_ = false;
  std::thread thread_;
};

// The CPU's sensors under /sys: the mean frequency of the cores that this process may use, and the
// temperature of the hottest thermal zone. Most virtual machines have neither.
class CpuSensors final : public Sensors {
 public:
  // cores: core numbers. root: "/", or another folder in tests.
  explicit CpuSensors(const std::vector<int>& cores, const std::filesystem::path& root = "/");

  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return false; }
  [[nodiscard]] double interval() const override;
  [[nodiscard]] Reading read() override;

 private:
  std::vector<Sensor> sensors_;
  std::vector<std::filesystem::path> frequencies_;   // kHz
  std::vector<std::filesystem::path> temperatures_;  // thousandths of a degree Celsius
};

// Host memory, an inline stream for compute (work runs on the calling thread), and worker streams
// for communication, all-gathers and the optimizer. Only the thread that constructed the device may
// call it. It must outlive its arrays, ops and events.
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
