#include <cstring>

#include "core/clock.h"
#include "cuda/check.h"
#include "cuda/launch.cuh"
#include "cuda/occupied_multiprocessors.h"

namespace paceline {

namespace {

constexpr std::uint64_t longest = 5'000'000'000;  // nanoseconds

__device__ std::uint64_t nanoseconds() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

__global__ void occupying_kernel(volatile std::uint32_t* flags) {
  wait_for_stream();
  flags[1 + blockIdx.x] = 1;
  const std::uint64_t end = nanoseconds() + longest;
  while (flags[0] == 0 && nanoseconds() < end) __nanosleep(1000);
}

// Bytes that a block can have at most: two blocks do not fit.
std::size_t shared_memory() {
  int device = 0;
  int bytes = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  return static_cast<std::size_t>(bytes);
}

}  // namespace

OccupiedMultiprocessors::OccupiedMultiprocessors(int count) : count_(count) {
  if (count == 0) return;
  const std::size_t bytes = (1 + static_cast<std::size_t>(count)) * sizeof(std::uint32_t);
  void* memory = nullptr;
  CUDA_CHECK(cudaMallocHost(&memory, bytes, cudaHostAllocDefault));
  std::memset(memory, 0, bytes);
  flags_ = static_cast<std::uint32_t*>(memory);
  launch({static_cast<unsigned>(count), 1, stream_.get(), shared_memory()}, occupying_kernel,
         flags_);
  const double began = host_seconds();
  constexpr double patience = 1;  // if other work keeps them from starting
  for (int block = 0; block < count_; ++block) {
    while (flags_[1 + block] == 0 && host_seconds() - began < patience) continue;
  }
}

OccupiedMultiprocessors::~OccupiedMultiprocessors() {
  if (flags_ == nullptr) return;
  flags_[0] = 1;
  cudaStreamSynchronize(stream_.get());
  cudaFreeHost(const_cast<std::uint32_t*>(flags_));
}

}  // namespace paceline
