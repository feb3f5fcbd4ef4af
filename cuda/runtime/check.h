#pragma once
#include <cuda_runtime.h>

#include <string>

#include "core/error.h"
#include "cuda/gemm/cublaslt.h"

namespace paceline {

inline void throw_unless_success(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return;
  throw InternalError(std::string(call) + " failed: " + cudaGetErrorString(result));
}

inline void throw_unless_success(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw InternalError(std::string(call) + " failed: " + cublaslt().get_status_string(result));
}

}  // namespace paceline

#define CUDA_CHECK(call) ::paceline::throw_unless_success((call), #call)
