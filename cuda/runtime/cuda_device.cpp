#include "cuda/runtime/cuda_device.h"

#include <fmt/format.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/data_sheet.h"
#include "core/error.h"
#include "core/random.h"
#include "cuda/attention/flash.h"
#include "cuda/cuda_eager_ops.h"
#include "cuda/cuda_fused_ops.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/gpu_sensors.h"

namespace paceline {

namespace {

// Every scope is also an NVTX range, which profilers show. Its name is a registered string, by
// which profilers can filter.
class NvtxScopes final : public ScopeStack {
 private:
  void show(ScopeId scope) override {
    while (names_.size() < paths().size()) {
      names_.push_back(nvtxDomainRegisterStringA(nullptr, paths()[names_.size()].name.c_str()));
    }
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    range.message.registered = names_[scope];
    nvtxRangePushEx(&range);
  }
  void hide() override { nvtxRangePop(); }

  std::vector<nvtxStringHandle_t> names_;  // [ScopeId]
};

int selected(int ordinal) {
  const cudaError_t result = cudaSetDevice(ordinal);
  if (result == cudaErrorMemoryAllocation) {
    throw EnvironmentError(fmt::format(
        "GPU {} has no memory left for a CUDA context; see in nvidia-smi what else uses it",
        ordinal));
  }
  throw_unless_success(result, "cudaSetDevice");
  return ordinal;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

// 13000 -> "13.0".
std::string version_text(int code) { return fmt::format("{}.{}", code / 1000, code % 1000 / 10); }

std::vector<std::pair<std::string, std::string>> versions() {
  int runtime = 0;
  int newest = 0;
  CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  CUDA_CHECK(cudaDriverGetVersion(&newest));
  std::string driver;
  std::getline(std::ifstream("/sys/module/nvidia/version"), driver);
  return {{"cuda", version_text(runtime)},
          {"cuda_of_driver", version_text(newest)},
          {"driver", driver.empty() ? "unknown" : driver}};
}

// `work` over the seconds of each run on the stream, after warm-up runs.
template <class F>
std::vector<double> rates_of(double work, CudaStream& stream, F&& run) {
  constexpr int warm_up = 3;
  constexpr int count = 20;
  for (int i = 0; i < warm_up; ++i) run();
  std::vector<double> rates;
  for (int i = 0; i < count; ++i) {
    const EventPtr begin = stream.record();
    run();
    const EventPtr end = stream.record();
    end->synchronize();
    rates.push_back(work / end->seconds_since(*begin));
  }
  return rates;
}

// Normally distributed numbers: a GEMM of zeros runs faster than one of data.
Array random_matrix(CudaDevice& device, Ops& ops, std::int64_t n, Dtype dtype) {
  constexpr std::int64_t drawn = std::int64_t{1} << 20U;  // repeated; n * n is a multiple
  Array floats = device.allocate({n, n}, Dtype::f32, MemoryKind::workspace);
  std::vector<float> values(drawn);
  Random(0, 0).fill_normal(values);
  for (std::int64_t i = 0; i < n * n; i += drawn) {
    device.to_device(floats.tensor().slice(i, {drawn}), values.data());
  }
  if (dtype == Dtype::f32) return floats;
  Array low = device.allocate({n, n}, dtype, MemoryKind::workspace);
  ops.cast(low, floats);
  return low;
}

}  // namespace

std::string uuid_of_gpu(int ordinal) {
  cudaDeviceProp properties{};
  CUDA_CHECK(cudaGetDeviceProperties(&properties, ordinal));
  return uuid_text(properties.uuid);
}

CudaDevice::CudaDevice(int ordinal, std::size_t memory_limit, int threads)
    : ordinal_(selected(ordinal)),
      threads_(threads),
      scopes_(std::make_unique<NvtxScopes>()),
      allocator_(memory_limit) {
  CUDA_CHECK(cudaGetDeviceProperties(&properties_, ordinal));
}

DeviceInfo CudaDevice::info() const {
  std::array<char, 16> bus{};
  CUDA_CHECK(cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal_));
  return {.kind = DeviceKind::cuda,
          .name = properties_.name,
          .uuid = uuid_text(properties_.uuid),
          .pci_bus_id = bus.data(),
          .memory_bytes = std::min(allocator_.limit(), properties_.totalGlobalMem),
          .cache_bytes = static_cast<std::size_t>(properties_.l2CacheSize),
          .threads = threads_,
          .versions = versions()};
}

Array CudaDevice::allocate(const Shape& shape, Dtype dtype, MemoryKind kind) {
  const Tensor tensor{nullptr, shape, dtype};
  std::shared_ptr<void> owner = allocator_.allocate({.bytes = tensor.bytes(),
                                                     .kind = kind,
                                                     .scope = scopes_->path(),
                                                     .shape = shape,
                                                     .dtype = dtype},
                                                    ledger());
  return {Tensor{owner.get(), shape, dtype}, owner};
}

Array CudaDevice::adopt(const Tensor& memory, std::size_t library_bytes, MemoryKind kind,
                        std::function<void(void*)> release) {
  ledger().allocated(memory.data, {.bytes = memory.bytes(),
                                   .kind = kind,
                                   .scope = scopes_->path(),
                                   .shape = memory.shape,
                                   .dtype = memory.dtype});
  adopted_bytes_ += library_bytes;
  const auto give_back = [this, library_bytes, release = std::move(release)](void* address) {
    ledger().released(address);
    adopted_bytes_ -= library_bytes;
    release(address);
  };
  return {memory, std::shared_ptr<void>(memory.data, give_back)};
}

void CudaDevice::trim() {
  synchronize();
  allocator_.trim();
}

void CudaDevice::synchronize() {
  compute_.synchronize();
  communication_.synchronize();
  gather_.synchronize();
  optimizer_.synchronize();
}

std::size_t CudaDevice::driver_bytes() const {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return total - free;
}

std::unique_ptr<Graph> CudaDevice::capture(Stream& stream, std::function<void()> work) {
  return std::make_unique<CudaGraph>(dynamic_cast<CudaStream&>(stream).get(), work);
}

void CudaDevice::to_device(const Tensor& device, const void* host) {
  CUDA_CHECK(
      cudaMemcpyAsync(device.data, host, device.bytes(), cudaMemcpyHostToDevice, compute_.get()));
  compute_.synchronize();
}

void CudaDevice::to_host(void* host, const Tensor& device) {
  CUDA_CHECK(
      cudaMemcpyAsync(host, device.data, device.bytes(), cudaMemcpyDeviceToHost, compute_.get()));
  compute_.synchronize();
}

void CudaDevice::zero(const Tensor& device) {
  CUDA_CHECK(cudaMemsetAsync(device.data, 0, device.bytes(), compute_.get()));
}

std::unique_ptr<Ops> CudaDevice::make_ops(const OpsConfig& config) {
  switch (config.execution) {
    case Execution::eager: return std::make_unique<CudaEagerOps>(*this, config);
    case Execution::compiled: return std::make_unique<CudaFusedOps>(*this, config);
  }
  throw InternalError("an execution that the CUDA device does not know");
}

void CudaDevice::check_attention(const OpsConfig& config, const AttentionShape& shape) const {
  check_flash(config, shape);
}

std::vector<double> CudaDevice::gemm_rates(const Precision& precision) {
  constexpr std::int64_t n = 8192;
  // A separate device, so that its memory is not counted and its allocator is not frozen.
  CudaDevice device(ordinal_, std::numeric_limits<std::size_t>::max(), threads_);
  const std::unique_ptr<Ops> ops = device.make_ops({.precision = precision});
  const Array a = random_matrix(device, *ops, n, precision.compute);
  const Array b = random_matrix(device, *ops, n, precision.compute);
  const Array c = device.allocate({n, n}, precision.compute, MemoryKind::workspace);
  const Matrix product(c);
  const Matrix left(a);
  const Matrix right(b);
  return rates_of(2.0 * n * n * n, device.compute_stream(),
                  [&] { ops->matmul(product, left, right.transpose()); });
}

std::vector<double> CudaDevice::copy_rates() {
  constexpr std::int64_t bytes = std::int64_t{2} << 30U;  // far beyond the L2 cache
  CudaDevice device(ordinal_, std::numeric_limits<std::size_t>::max(), threads_);
  const Array from = device.allocate({bytes / 4}, Dtype::f32, MemoryKind::workspace);
  const Array to = device.allocate({bytes / 4}, Dtype::f32, MemoryKind::workspace);
  device.zero(from);
  return rates_of(2.0 * bytes, device.compute_stream(), [&] {
    CUDA_CHECK(cudaMemcpyAsync(to.tensor().data, from.tensor().data, bytes,
                               cudaMemcpyDeviceToDevice, device.compute_stream().get()));
  });
}

std::unique_ptr<Sensors> CudaDevice::sensors() const {
  return std::make_unique<GpuSensors>(info().pci_bus_id);
}

std::vector<double> CudaDevice::nvlinks() const {
  const std::shared_ptr<const Nvml> nvml = Nvml::open();
  const Nvml::Gpu gpu = nvml == nullptr ? nullptr : nvml->gpu(info().pci_bus_id);
  return gpu == nullptr ? std::vector<double>{} : nvml->nvlinks(gpu);
}

std::optional<double> CudaDevice::datasheet_peak(const Precision& precision) const {
  const DataSheet* sheet = data_sheet_of(properties_.name);
  return sheet == nullptr ? std::nullopt : sheet->flops_per_s(precision);
}

}  // namespace paceline
