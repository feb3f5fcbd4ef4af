#pragma once
// Properties of the current device that kernels and launches depend on. A process uses one device
// only.

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/runtime/check.h"

namespace paceline {

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

// Bytes that are free at present.
inline std::size_t free_memory() {
  std::size_t free = 0;
  std::size_t total = 0;
  CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return free;
}

inline int multiprocessors() {
  static const int count = device_attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

// 9.0 -> 90.
inline int compute_capability() {
  static const int both = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
                          device_attribute(cudaDevAttrComputeCapabilityMinor);
  return both;
}

}  // namespace paceline
