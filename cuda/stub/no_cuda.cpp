#include "core/error.h"
#include "cuda/cuda_backend.h"

namespace paceline {

std::string gpu_uuid(int /*local_rank*/) { return ""; }

std::string why_no_gpu() { return "this build has no CUDA device"; }

std::unique_ptr<GpuDevice> make_cuda_device(int /*local_rank*/,
                                            std::optional<std::size_t> /*memory_limit*/,
                                            int /*threads*/) {
  throw EnvironmentError(
      "--device: this build has no CUDA device; use --device cpu, or build where "
      "nvcc is");
}

}  // namespace paceline
