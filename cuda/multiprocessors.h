#pragma once

#include <cuda_runtime.h>

#include "cuda/check.h"

namespace paceline {

// Of the current device, which stays the same in a process.
inline int multiprocessors() {
  static const int count = [] {
    int device = 0;
    int found = 0;
    CUDA_CHECK(cudaGetDevice(&device));
    CUDA_CHECK(cudaDeviceGetAttribute(&found, cudaDevAttrMultiProcessorCount, device));
    return found;
  }();
  return count;
}

}  // namespace paceline
