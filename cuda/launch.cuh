#pragma once
// How every kernel here is started: in the order of its stream, but with its launch prepared while
// the work before it still runs (programmatic dependent launch, which Hopper brought). That hides
// the 1.5 us which otherwise pass between two kernels of a stream.

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>

#include "cuda/check.h"
#include "cuda/current_device.h"

namespace paceline {

// The first statement of every kernel: what was enqueued before it is finished and visible.
__device__ inline void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct Grid {
  dim3 blocks;
  dim3 threads;  // of a block
  cudaStream_t stream;
  std::size_t shared_bytes = 0;  // of a block, dynamic
};

template <class... Parameters, class... Arguments>
void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) {
  constexpr unsigned shared_bytes_unasked = 48 * 1024;
  if (grid.shared_bytes > shared_bytes_unasked) {
    CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(grid.shared_bytes)));
  }
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = grid.stream;
  config.attrs = &attribute;
  config.numAttrs = compute_capability() >= 90 ? 1 : 0;  // older GPUs refuse it
  CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, std::forward<Arguments>(arguments)...));
}

}  // namespace paceline
