#pragma once
// CudaDevice: one GPU, with streams for compute, communication, gathers and the optimizer, and a
// caching allocator. Called by one thread; must outlive its arrays, ops, events and graphs.

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "cuda/cuda_backend.h"
#include "cuda/runtime/cuda_allocator.h"
#include "cuda/runtime/cuda_stream.h"

namespace paceline {

class CudaDevice final : public GpuDevice {
 public:
  // ordinal: for cudaSetDevice; memory_limit: bytes that allocate() may reserve in total; threads:
  // CPU threads of the rank, for the record
  CudaDevice(int ordinal, std::size_t memory_limit, int threads);

  [[nodiscard]] DeviceInfo info() const override;

  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype, MemoryKind kind) override;
  [[nodiscard]] Array adopt(const Tensor& memory, std::size_t library_bytes, MemoryKind kind,
                            std::function<void(void*)> release) override;
  void freeze() override { allocator_.freeze(); }
  void trim() override;
  [[nodiscard]] bool reserved_unchanged() override { return allocator_.reserved_unchanged(); }
  [[nodiscard]] std::size_t reserved_bytes() const override {
    return allocator_.reserved_bytes() + adopted_bytes_;
  }
  [[nodiscard]] std::size_t driver_bytes() const override;

  [[nodiscard]] CudaStream& compute_stream() override { return compute_; }
  [[nodiscard]] CudaStream& communication_stream() override { return communication_; }
  [[nodiscard]] CudaStream& gather_stream() override { return gather_; }
  [[nodiscard]] CudaStream& optimizer_stream() override { return optimizer_; }
  [[nodiscard]] CUstream_st* handle_of(Stream& stream) override {
    return static_cast<CudaStream&>(stream).get();
  }
  void synchronize() override;

  [[nodiscard]] std::unique_ptr<Graph> capture(Stream& stream, std::function<void()> work) override;

  void to_device(const Tensor& device, const void* host) override;
  void to_host(void* host, const Tensor& device) override;
  void zero(const Tensor& device) override;

  [[nodiscard]] std::unique_ptr<Ops> make_ops(const OpsConfig& config) override;
  void check_attention(const OpsConfig& config, const AttentionShape& shape) const override;

  [[nodiscard]] std::vector<double> gemm_rates(const Precision& precision) override;
  [[nodiscard]] std::vector<double> copy_rates() override;
  [[nodiscard]] std::unique_ptr<Sensors> sensors() const override;
  // Defined in cuda/cupti/, or without CUPTI in cuda/stub/no_cupti.cpp.
  [[nodiscard]] std::unique_ptr<Profiler> start_profiler() override;
  [[nodiscard]] std::vector<double> nvlinks() const override;
  [[nodiscard]] std::optional<double> datasheet_peak(const Precision& precision) const override;

  [[nodiscard]] ScopeStack& scopes() override { return *scopes_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

 private:
  int ordinal_;
  int threads_;
  cudaDeviceProp properties_{};
  std::unique_ptr<ScopeStack> scopes_;  // scopes are NVTX ranges, too
  CudaAllocator allocator_;
  std::size_t adopted_bytes_ = 0;
  CudaStream compute_;
  CudaStream communication_;
  CudaStream gather_;
  CudaStream optimizer_{false};
};

// "GPU-<uuid>", as nvidia-smi writes it.
[[nodiscard]] std::string uuid_of_gpu(int ordinal);

}  // namespace paceline
