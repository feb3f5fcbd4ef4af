#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "cuda/check.h"
#include "cuda/cuda_backend.h"
#include "cuda/cuda_device.h"
#include "cuda/launch.cuh"
#include "cuda/occupied_multiprocessors.h"

namespace paceline {
namespace {

__global__ void large_kernel() { wait_for_stream(); }

// A block that does not fit beside a block of OccupiedMultiprocessors.
void launch_large(const CudaStream& stream) {
  constexpr std::size_t shared_bytes = 64 * 1024;
  launch({1, 1, stream.get(), shared_bytes}, large_kernel);
}

TEST(OccupiedMultiprocessorsTest, OtherBlocksHaveTheRest) {
  if (gpu_uuid(0).empty()) GTEST_SKIP() << "no CUDA GPU here";
  const std::unique_ptr<Device> gpu = make_cuda_device(0, std::nullopt, 1);
  const int all = dynamic_cast<CudaDevice&>(*gpu).properties().multiProcessorCount;
  const CudaStream stream;
  launch_large(stream);  // loads the kernel
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  {
    const OccupiedMultiprocessors occupied(all - 1);
    launch_large(stream);
    CUDA_CHECK(cudaStreamSynchronize(stream.get()));
  }
  {
    const OccupiedMultiprocessors occupied(all);
    launch_large(stream);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(cudaStreamQuery(stream.get()), cudaErrorNotReady);
  }
  CUDA_CHECK(cudaStreamSynchronize(stream.get()));
}

}  // namespace
}  // namespace paceline
