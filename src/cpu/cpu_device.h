#pragma once
// CpuDevice: host memory, the caller's inline stream for compute and one worker stream for
// communication. One thread, the one that made the device, calls it; it outlives its arrays, ops
// and events.

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
  // memory_limit: bytes that allocate() may reserve in all; threads: of OpenMP and of the BLAS
  CpuDevice(std::size_t memory_limit, int threads);

  [[nodiscard]] DeviceInfo info() const override { return info_; }

  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override;
  void freeze() override { allocator_.freeze(); }
  void trim() override { allocator_.trim(); }
  [[nodiscard]] bool settled() override { return allocator_.settled(); }
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

  // The graph calls `work` again at every launch; capture itself does not call it.
  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& stream, std::function<void()> work) override;

  // An empty tensor has no memory, which memcpy and memset forbid.
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
  [[nodiscard]] std::unique_ptr<ToyOps> make_toy_ops() override;  // toy.cpp

  // Conversion to float and back included for half types.
  [[nodiscard]] std::vector<double> gemm_rates(const Precision& precision) override;
  [[nodiscard]] std::vector<double> copy_rates() override;
  [[nodiscard]] std::unique_ptr<Sensors> sensors() const override;
  [[nodiscard]] std::optional<double> datasheet_peak(const Precision&) const override { return {}; }

 private:
  const int threads_;
  const DeviceInfo info_;
  CpuAllocator allocator_;
  InlineStream compute_;
  // Last: their threads end before the memory goes.
  WorkerStream communication_;
  WorkerStream gather_;
  WorkerStream optimizer_;
};

}  // namespace paceline
