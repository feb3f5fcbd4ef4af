#pragma once
// What kernels and their launches depend on of the current device, which stays the same in a
// process.

#include <cuda_runtime.h>

#include "cuda/check.h"

namespace paceline {

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0;
  int value = 0;
  CUDA_CHECK(cudaGetDevice(&device));
  CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
  return value;
}

inline int multiprocessors() {
  static const int count = device_attribute(cudaDevAttrMultiProcessorCount);
  return count;
}

// 90 for 9.0.
inline int compute_capability() {
  static const int both = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
                          device_attribute(cudaDevAttrComputeCapabilityMinor);
  return both;
}

}  // namespace paceline
