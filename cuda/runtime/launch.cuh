#pragma once
// Every kernel is launched with programmatic dependent launch (Hopper and later): its blocks are
// scheduled while the previous kernel of the stream still runs, which hides the 1.5 us between two
// kernels. wait_for_stream() keeps the stream's order.

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <utility>

#include "core/non_copyable.h"
#include "cuda/runtime/check.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

// The first statement of every kernel: waits until all earlier work of the stream has ended and its
// writes are visible.
__device__ inline void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

struct Grid {
  dim3 blocks;
  dim3 threads;  // per block
  cudaStream_t stream = nullptr;
  std::size_t shared_bytes = 0;  // dynamic shared memory per block
  unsigned cluster = 1;          // blocks per cluster, at most 8
};

// The launch configuration of a kernel.
class Launch : NonCopyable {
 public:
  template <class... Parameters>
  Launch(const Grid& grid, void (*kernel)(Parameters...)) {
    constexpr std::size_t shared_bytes_unasked = 48 * 1024;
    if (grid.shared_bytes > shared_bytes_unasked) {
      CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      static_cast<int>(grid.shared_bytes)));
    }
    attributes_[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes_[0].val.programmaticStreamSerializationAllowed = 1;
    attributes_[1].id = cudaLaunchAttributeClusterDimension;
    attributes_[1].val.clusterDim = {grid.cluster, 1, 1};
    config_.gridDim = grid.blocks;
    config_.blockDim = grid.threads;
    config_.dynamicSmemBytes = grid.shared_bytes;
    config_.stream = grid.stream;
    config_.attrs = attributes_.data();
    // GPUs before Hopper reject the attributes.
    config_.numAttrs = compute_capability() < 90 ? 0 : grid.cluster == 1 ? 1 : 2;
  }

  [[nodiscard]] const cudaLaunchConfig_t* config() const { return &config_; }

 private:
  std::array<cudaLaunchAttribute, 2> attributes_{};
  cudaLaunchConfig_t config_{};
};

template <class... Parameters, class... Arguments>
void launch(const Grid& grid, void (*kernel)(Parameters...), Arguments&&... arguments) {
  const Launch launch(grid, kernel);
  CUDA_CHECK(cudaLaunchKernelEx(launch.config(), kernel, std::forward<Arguments>(arguments)...));
}

// The number of clusters of this grid that can run at the same time.
template <class... Parameters>
int resident_clusters(const Grid& grid, void (*kernel)(Parameters...)) {
  const Launch launch(grid, kernel);
  int clusters = 0;
  CUDA_CHECK(cudaOccupancyMaxActiveClusters(&clusters, kernel, launch.config()));
  return clusters;
}

}  // namespace paceline
