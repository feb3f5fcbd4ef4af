#pragma once
#include <cuda_runtime.h>

#include <string>

#include "core/error.h"

namespace paceline {

inline void throw_unless_success(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw InternalError(std::string(call) + " failed: " + cudaGetErrorString(result));
}

}  // namespace paceline

#define CUDA_CHECK(call) ::paceline::throw_unless_success((call), #call)
