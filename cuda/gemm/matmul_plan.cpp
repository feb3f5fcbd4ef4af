#include "cuda/gemm/matmul_plan.h"

#include <fmt/format.h>

#include <utility>

#include "cuda/gemm/cublaslt.h"
#include "cuda/gemm/product.h"
#include "cuda/runtime/check.h"

namespace paceline {

namespace {

cudaDataType_t cuda_type(Dtype d) {
  switch (d) {
    case Dtype::f32: return CUDA_R_32F;
    case Dtype::bf16: return CUDA_R_16BF;
    case Dtype::f16: return CUDA_R_16F;
    case Dtype::f64:
    case Dtype::i32: break;
  }
  throw InternalError("the CUDA device has no matrix products of " + std::string(name_of(d)));
}

cublasComputeType_t compute_type(GemmMath math) {
  switch (math) {
    case GemmMath::exact: return CUBLAS_COMPUTE_32F;
    case GemmMath::tf32: return CUBLAS_COMPUTE_32F_FAST_TF32;
  }
  throw InternalError("an arithmetic of GEMMs that cuBLASLt does not know");
}

template <class T>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, T value) {
  CUDA_CHECK(cublaslt().layout_set_attribute(layout, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  CUDA_CHECK(cublaslt().desc_set_attribute(operation, attribute, &value, sizeof value));
}

template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         T value) {
  CUDA_CHECK(cublaslt().preference_set_attribute(preference, attribute, &value, sizeof value));
}

// cuBLASLt is column-major: a row-major matrix is the transpose of a column-major one. c^T = b^T
// a^T, so the operands are swapped, and every layout has the matrix's own rows and row stride.
cublasLtMatrixLayout_t layout(const Matrix& m, int inner, Batching batching) {
  cublasLtMatrixLayout_t l = nullptr;
  CUDA_CHECK(cublaslt().layout_create(&l, cuda_type(m.tensor.dtype),
                                      static_cast<std::uint64_t>(m.cols),
                                      static_cast<std::uint64_t>(m.rows), m.row_stride));
  switch (batching) {
    case Batching::strided: {
      const auto which = static_cast<std::size_t>(inner);
      set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(m.batch.at(which)));
      set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.batch_stride.at(which));
      break;
    }
    case Batching::pointers:
      set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
          static_cast<std::int32_t>(m.batch[0] * m.batch[1]));
      set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE,
          static_cast<std::uint32_t>(CUBLASLT_BATCH_MODE_POINTER_ARRAY));
      break;
  }
  return l;
}

void* at(const Matrix& m, int outer, std::int64_t i) {
  const std::int64_t offset = m.batch_stride.at(static_cast<std::size_t>(outer)) * i;
  return static_cast<std::byte*>(m.tensor.data) +
         offset * static_cast<std::int64_t>(size_of(m.tensor.dtype));
}

}  // namespace

CublasLt::CublasLt(cudaStream_t on_stream, GemmMath float_math, Tensor workspace_memory)
    : stream(on_stream), math(float_math), workspace(workspace_memory) {
  CUDA_CHECK(cublaslt().create(&handle));
}

CublasLt::~CublasLt() { cublaslt().destroy(handle); }

AlgorithmConfig config_of(const cublasLtMatmulAlgo_t& algorithm) {
  constexpr std::size_t words = 7;  // attributes of 32 bits; the others have 16
  AlgorithmConfig config{};
  for (std::size_t i = 0; i < config.size(); ++i) {
    const auto attribute = static_cast<cublasLtMatmulAlgoConfigAttributes_t>(i);
    const std::size_t bytes = i < words ? 4 : 2;
    std::size_t written = 0;
    const cublasStatus_t status =
        cublaslt().algo_config_get_attribute(&algorithm, attribute, &config.at(i), bytes, &written);
    if (status != CUBLAS_STATUS_SUCCESS) config.at(i) = 0;  // the algorithm lacks this attribute
  }
  return config;
}

std::string text_of(const AlgorithmConfig& config) {
  constexpr std::array<const char*, 9> names = {
      "id", "tile", "split-k", "reduction", "swizzle", "custom", "stages", "inner", "cluster"};
  std::string text;
  for (std::size_t i = 0; i < config.size(); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : " ", names.at(i), config.at(i));
  }
  return text;
}

MatmulPlan::MatmulPlan(const CublasLt& library, const Matrix& c, const Matrix& a, const Matrix& b,
                       int multiprocessors, Batching batching)
    // Split-K reduces in float, whatever the dtype of c.
    : reductions_(c.tensor.dtype == Dtype::f32 ? CUBLASLT_REDUCTION_SCHEME_MASK
                                               : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE),
      alignments_{alignment_of(c), alignment_of(a), alignment_of(b)} {
  const bool floats = a.tensor.dtype == Dtype::f32;
  CUDA_CHECK(cublaslt().desc_create(
      &operation_, floats ? compute_type(library.math) : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, multiprocessors);
  const int inner = inner_batch(c);
  a_ = layout(a, inner, batching);
  b_ = layout(b, inner, batching);
  c_ = layout(c, inner, batching);
}

MatmulPlan::~MatmulPlan() {
  for (const cublasLtMatrixLayout_t l : {a_, b_, c_}) cublaslt().layout_destroy(l);
  cublaslt().desc_destroy(operation_);
}

std::vector<cublasLtMatmulAlgo_t> MatmulPlan::proposals(const CublasLt& library,
                                                        const ProposalLimits& limits,
                                                        int most) const {
  cublasLtMatmulPreference_t preference = nullptr;
  CUDA_CHECK(cublaslt().preference_create(&preference));
  const auto [of_c, of_a, of_b] = alignments_;
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, limits.workspace_bytes);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, limits.waves);
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions_);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, of_b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, of_a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, of_c);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, of_c);
  int found = 0;
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  const cublasStatus_t status = cublaslt().algo_get_heuristic(
      library.handle, operation_, b_, a_, c_, c_, preference, most, results.data(), &found);
  cublaslt().preference_destroy(preference);
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  if (status != CUBLAS_STATUS_SUCCESS) return algorithms;
  results.resize(static_cast<std::size_t>(found));
  for (const cublasLtMatmulHeuristicResult_t& result : results) {
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool MatmulPlan::accepts(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result{};
  const cublasStatus_t status =
      cublaslt().algo_check(library.handle, operation_, b_, a_, c_, c_, &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= library.workspace.bytes();
}

cublasStatus_t MatmulPlan::call(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm,
                                void* c, const void* a, const void* b, double alpha,
                                double beta) const {
  const auto scale_alpha = static_cast<float>(alpha);
  const auto scale_beta = static_cast<float>(beta);
  return cublaslt().matmul(library.handle, operation_, &scale_alpha, b, b_, a, a_, &scale_beta, c,
                           c_, c, c_, &algorithm, library.workspace.data, library.workspace.bytes(),
                           library.stream);
}

cublasStatus_t MatmulPlan::run(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm,
                               const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                               double beta) const {
  const int outer = 1 - inner_batch(c);
  for (std::int64_t i = 0; i < c.batch.at(static_cast<std::size_t>(outer)); ++i) {
    const cublasStatus_t status =
        call(library, algorithm, at(c, outer, i), at(a, outer, i), at(b, outer, i), alpha, beta);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}

void throw_no_product(const Matrix& c, const Matrix& a) {
  throw InternalError(fmt::format("cuBLASLt has no algorithm for a product [{}, {}] of {} and {}",
                                  c.rows, c.cols, name_of(a.tensor.dtype),
                                  name_of(c.tensor.dtype)));
}

}  // namespace paceline
