#pragma once
// cuBLASLt, loaded at its first use. Loading takes 0.08 s (400,000 relocations), which would
// otherwise delay every start of the program, on CPUs too.

#include <cublasLt.h>

#include <string>

#include "core/error.h"
#include "core/non_copyable.h"

namespace paceline {

// The functions of cuBLASLt that paceline calls.
struct CublasLtFunctions : NonCopyable {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) get_status_string;
  decltype(&cublasLtGetVersion) get_version;
  decltype(&cublasLtMatmul) matmul;
  decltype(&cublasLtMatmulAlgoCheck) algo_check;
  decltype(&cublasLtMatmulAlgoConfigGetAttribute) algo_config_get_attribute;
  decltype(&cublasLtMatmulAlgoGetHeuristic) algo_get_heuristic;
  decltype(&cublasLtMatmulDescCreate) desc_create;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set_attribute;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set_attribute;
  decltype(&cublasLtMatrixLayoutCreate) layout_create;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set_attribute;

  CublasLtFunctions();
};

// Throws EnvironmentError if the library cannot be loaded.
[[nodiscard]] const CublasLtFunctions& cublaslt();

inline void throw_unless_success(cublasStatus_t result, const char* call) {
  if (result == CUBLAS_STATUS_SUCCESS) return;
  throw InternalError(std::string(call) + " failed: " + cublaslt().get_status_string(result));
}

}  // namespace paceline
