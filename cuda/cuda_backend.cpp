#include "cuda/cuda_backend.h"

#include <limits>

#include "core/error.h"
#include "cuda/runtime/cuda_device.h"

namespace paceline {

namespace {

// -1 if there is no GPU.
int ordinal_of(int local_rank) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    cudaGetLastError();  // no driver or no GPU is handled: clear the error
    return -1;
  }
  return count == 1 ? 0 : local_rank % count;
}

}  // namespace

std::string gpu_uuid(int local_rank) {
  const int ordinal = ordinal_of(local_rank);
  return ordinal < 0 ? "" : uuid_of_gpu(ordinal);
}

std::unique_ptr<GpuDevice> make_cuda_device(int local_rank, std::optional<std::size_t> memory_limit,
                                            int threads) {
  const int ordinal = ordinal_of(local_rank);
  if (ordinal < 0) {
    throw EnvironmentError(
        "--device: no CUDA GPU is visible here; use --device cpu, or see "
        "nvidia-smi and CUDA_VISIBLE_DEVICES");
  }
  return std::make_unique<CudaDevice>(
      ordinal, memory_limit.value_or(std::numeric_limits<std::size_t>::max()), threads);
}

}  // namespace paceline
