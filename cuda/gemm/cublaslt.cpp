#include "cuda/gemm/cublaslt.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>

#include "core/error.h"

namespace paceline {

namespace {

struct Symbol {
  void* address;

  template <class F>
  operator F*() const {  // NOLINT(google-explicit-constructor): its target has the type
    return reinterpret_cast<F*>(address);
  }
};

Symbol symbol(const char* name) {
  static const std::string file = fmt::format("libcublasLt.so.{}", CUBLAS_VER_MAJOR);
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (void* const found = library == nullptr ? nullptr : dlsym(library, name)) return {found};
  throw EnvironmentError(
      fmt::format("{}; add the folder of {} to LD_LIBRARY_PATH", dlerror(), file));
}

}  // namespace

CublasLtFunctions::CublasLtFunctions()
    : create(symbol("cublasLtCreate")),
      destroy(symbol("cublasLtDestroy")),
      get_status_string(symbol("cublasLtGetStatusString")),
      get_version(symbol("cublasLtGetVersion")),
      matmul(symbol("cublasLtMatmul")),
      algo_check(symbol("cublasLtMatmulAlgoCheck")),
      algo_config_get_attribute(symbol("cublasLtMatmulAlgoConfigGetAttribute")),
      algo_get_heuristic(symbol("cublasLtMatmulAlgoGetHeuristic")),
      desc_create(symbol("cublasLtMatmulDescCreate")),
      desc_destroy(symbol("cublasLtMatmulDescDestroy")),
      desc_set_attribute(symbol("cublasLtMatmulDescSetAttribute")),
      preference_create(symbol("cublasLtMatmulPreferenceCreate")),
      preference_destroy(symbol("cublasLtMatmulPreferenceDestroy")),
      preference_set_attribute(symbol("cublasLtMatmulPreferenceSetAttribute")),
      layout_create(symbol("cublasLtMatrixLayoutCreate")),
      layout_destroy(symbol("cublasLtMatrixLayoutDestroy")),
      layout_set_attribute(symbol("cublasLtMatrixLayoutSetAttribute")) {}

const CublasLtFunctions& cublaslt() {
  static const CublasLtFunctions functions;
  return functions;
}

}  // namespace paceline
