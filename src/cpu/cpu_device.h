#pragma once
// CpuDevice: host memory, an inline stream for compute (work runs on the calling thread), and
// worker streams for communication, all-gathers and the optimizer. Only the thread that constructed
// the device may call it. It must outlive its arrays, ops and events.

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "core/device.h"
#include "cpu/cpu_allocator.h"
#include "cpu/cpu_stream.h"

namespace paceline {

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
