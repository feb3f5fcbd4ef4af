#include "cuda/cuda_backend.h"

#include <limits>

#include "core/error.h"
#include "cuda/runtime/cuda_device.h"

namespace paceline {

namespace {

// The number of visible GPUs, at least one, or CUDA's reason why there is none.
struct VisibleGpus {
  int count = 0;
  std::string why_none;
};

VisibleGpus visible_gpus() {
  VisibleGpus gpus;
  cudaError_t result = cudaGetDeviceCount(&gpus.count);
  cudaGetLastError();  // no driver or no GPU is handled: clear the error
  if (result == cudaSuccess && gpus.count == 0) result = cudaErrorNoDevice;
  if (result != cudaSuccess) gpus = {.count = 0, .why_none = cudaGetErrorString(result)};
  return gpus;
}

// -1 if there is no GPU.
int ordinal_of(int local_rank) {
  const int count = visible_gpus().count;
  return count < 2 ? count - 1 : local_rank % count;
}

}  // namespace

std::string gpu_uuid(int local_rank) {
  const int ordinal = ordinal_of(local_rank);
  return ordinal < 0 ? "" : uuid_of_gpu(ordinal);
}

std::string why_no_gpu() { return visible_gpus().why_none; }

std::unique_ptr<GpuDevice> make_cuda_device(int local_rank, std::optional<std::size_t> memory_limit,
                                            int threads) {
  const int ordinal = ordinal_of(local_rank);
  if (ordinal < 0) throw EnvironmentError("--device: " + why_no_gpu());
  return std::make_unique<CudaDevice>(
      ordinal, memory_limit.value_or(std::numeric_limits<std::size_t>::max()), threads);
}

}  // namespace paceline
