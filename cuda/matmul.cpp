#include "cuda/matmul.h"

#include <fmt/format.h>

#include <array>

#include "cuda/check.h"

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
  throw InternalError("the CUDA device multiplies no " + std::string(name_of(d)));
}

cublasComputeType_t compute_type(GemmMath math) {
  switch (math) {
    case GemmMath::exact: return CUBLAS_COMPUTE_32F;
    case GemmMath::tf32: return CUBLAS_COMPUTE_32F_FAST_TF32;
  }
  throw InternalError("an arithmetic of GEMMs that cuBLASLt does not know");
}

// The batch dimension that goes into the call; the other is looped over. The longer one.
int inner_batch(const Matrix& c) { return c.batch[0] > c.batch[1] ? 0 : 1; }

// Row-major matrices are column-major ones transposed: c^T = b^T a^T, so the operands swap places
// and every matrix is described by its own rows and row stride.
cublasLtMatrixLayout_t layout(const Matrix& m, int inner) {
  cublasLtMatrixLayout_t l = nullptr;
  CUDA_CHECK(cublasLtMatrixLayoutCreate(&l, cuda_type(m.tensor.dtype),
                                        static_cast<std::uint64_t>(m.cols),
                                        static_cast<std::uint64_t>(m.rows), m.row_stride));
  const auto which = static_cast<std::size_t>(inner);
  const auto count = static_cast<std::int32_t>(m.batch.at(which));
  const std::int64_t stride = m.batch_stride.at(which);
  CUDA_CHECK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                              sizeof count));
  CUDA_CHECK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                              &stride, sizeof stride));
  return l;
}

// The alignment in bytes that the operand's addresses have in every batch.
std::uint32_t alignment_of(const Matrix& m) {
  constexpr std::uint64_t most = 256;
  const std::uint64_t size = size_of(m.tensor.dtype);
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(m.tensor.data) | most;
  bits |= static_cast<std::uint64_t>(m.row_stride) * size;
  for (const std::int64_t stride : m.batch_stride)
    bits |= static_cast<std::uint64_t>(stride) * size;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

void* at(const Matrix& m, int outer, std::int64_t i) {
  const std::int64_t offset = m.batch_stride.at(static_cast<std::size_t>(outer)) * i;
  return static_cast<std::byte*>(m.tensor.data) +
         offset * static_cast<std::int64_t>(size_of(m.tensor.dtype));
}

}  // namespace

CudaMatmul::CudaMatmul(cudaStream_t stream, GemmMath math, Tensor workspace)
    : stream_(stream), float_compute_(compute_type(math)), workspace_(workspace) {
  CUDA_CHECK(cublasLtCreate(&handle_));
}

CudaMatmul::~CudaMatmul() {
  for (const auto& [key, p] : plans_) {
    for (const cublasLtMatrixLayout_t l : {p.a, p.b, p.c}) cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulDescDestroy(p.operation);
  }
  cublasLtDestroy(handle_);
}

void CudaMatmul::run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta,
                     int multiprocessors) {
  const int inner = inner_batch(c);
  const int outer = 1 - inner;
  const Plan& p = plan(c, a, b, inner, beta != 0, multiprocessors);
  const auto scale_alpha = static_cast<float>(alpha);
  const auto scale_beta = static_cast<float>(beta);
  for (std::int64_t i = 0; i < c.batch.at(static_cast<std::size_t>(outer)); ++i) {
    void* out = at(c, outer, i);
    CUDA_CHECK(cublasLtMatmul(handle_, p.operation, &scale_alpha, at(b, outer, i), p.b,
                              at(a, outer, i), p.a, &scale_beta, out, p.c, out, p.c, &p.algorithm,
                              workspace_.data, workspace_.bytes(), stream_));
  }
}

const CudaMatmul::Plan& CudaMatmul::plan(const Matrix& c, const Matrix& a, const Matrix& b,
                                         int inner, bool reads_c, int multiprocessors) {
  const auto operand = [&](const Matrix& m) {
    return Operand{m.tensor.dtype,
                   m.rows,
                   m.cols,
                   m.row_stride,
                   m.batch_stride.at(static_cast<std::size_t>(inner)) * 512 + alignment_of(m),
                   m.transposed};
  };
  const Key key{operand(c), operand(a),     operand(b), c.batch.at(static_cast<std::size_t>(inner)),
                reads_c,    multiprocessors};
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, make_plan(c, a, b, inner, reads_c, multiprocessors)).first->second;
}

CudaMatmul::Plan CudaMatmul::make_plan(const Matrix& c, const Matrix& a, const Matrix& b, int inner,
                                       bool reads_c, int multiprocessors) const {
  Plan p;
  const bool floats = a.tensor.dtype == Dtype::f32;
  CUDA_CHECK(cublasLtMatmulDescCreate(&p.operation, floats ? float_compute_ : CUBLAS_COMPUTE_32F,
                                      CUDA_R_32F));
  const cublasOperation_t first = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  CUDA_CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                            sizeof first));
  CUDA_CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                            sizeof second));
  CUDA_CHECK(cublasLtMatmulDescSetAttribute(p.operation, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET,
                                            &multiprocessors, sizeof multiprocessors));
  p.a = layout(a, inner);
  p.b = layout(b, inner);
  p.c = layout(c, inner);

  cublasLtMatmulPreference_t preference = nullptr;
  CUDA_CHECK(cublasLtMatmulPreferenceCreate(&preference));
  const std::size_t workspace = workspace_.bytes();
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &workspace, sizeof workspace);
  // Where k is split, the parts meet in float, whatever c is.
  const std::uint32_t reduction = c.tensor.dtype == Dtype::f32
                                      ? CUBLASLT_REDUCTION_SCHEME_MASK
                                      : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  const std::array<std::pair<cublasLtMatmulPreferenceAttributes_t, std::uint32_t>, 5> limits = {
      {{CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b)},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a)},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(c)},
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(c)}}};
  for (const auto& [attribute, value] : limits) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value);
  }
  int found = 0;
  cublasLtMatmulHeuristicResult_t best{};
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, p.operation, p.b, p.a, p.c,
                                                               p.c, preference, 1, &best, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
    throw InternalError(fmt::format("cuBLASLt knows no product [{}, {}] of {} and {}{}", c.rows,
                                    c.cols, name_of(a.tensor.dtype), name_of(c.tensor.dtype),
                                    reads_c ? " with addition" : ""));
  }
  p.algorithm = best.algo;
  return p;
}

}  // namespace paceline
