#pragma once
// A matrix product for cuBLASLt: its descriptor and layouts, created once, and the algorithms that
// can compute it.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/non_copyable.h"
#include "core/precision.h"
#include "core/tensor.h"
#include "cuda/gemm/product_cache.h"

namespace paceline {

// Arguments common to all calls of cuBLASLt.
struct CublasLt : NonCopyable {
  // float_math: for float32 inputs; workspace_memory: device memory for cuBLASLt, which must
  // outlive this object.
  CublasLt(cudaStream_t on_stream, GemmMath float_math, Tensor workspace_memory);
  ~CublasLt();

  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream;
  GemmMath math;
  Tensor workspace;
};

// The parameters of an algorithm, in the order of cublasLtMatmulAlgoConfigAttributes_t.
using AlgorithmConfig = std::array<std::uint32_t, 9>;
[[nodiscard]] AlgorithmConfig config_of(const cublasLtMatmulAlgo_t& algorithm);
// "id 66 tile 20 stages 36 ...", with the numbers of cublasLt.h.
[[nodiscard]] std::string text_of(const AlgorithmConfig& config);

// Limits on the algorithms that cuBLASLt is asked for.
struct ProposalLimits {
  std::size_t workspace_bytes = 0;
  float waves = 0;  // most waves of blocks over the GPU; 0: any number
};

class MatmulPlan : NonCopyable {
 public:
  // multiprocessors: the number that the algorithm is chosen for; 0: all. Batching::strided covers
  // the longer batch dimension, pointers covers both.
  MatmulPlan(const CublasLt& library, const Matrix& c, const Matrix& a, const Matrix& b,
             int multiprocessors, Batching batching);
  ~MatmulPlan();

  // At most `most` algorithms, in the order of cuBLASLt's estimates, fastest first.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposals(const CublasLt& library,
                                                            const ProposalLimits& limits,
                                                            int most) const;
  // Whether cuBLASLt supports this algorithm for this product and workspace.
  [[nodiscard]] bool accepts(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm) const;

  // One call. For Batching::strided the addresses are those of the operands' first elements; for
  // pointers, those of device arrays with the address of every matrix.
  cublasStatus_t call(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm, void* c,
                      const void* a, const void* b, double alpha, double beta) const;
  // For Batching::strided: one call per index of the shorter batch dimension. The operands have the
  // shapes, strides and alignments of the constructor's.
  cublasStatus_t run(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm,
                     const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                     double beta) const;

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
  std::uint32_t reductions_;                 // reduction schemes allowed for split-K
  std::array<std::uint32_t, 3> alignments_;  // of c, a, b in bytes
};

// The batch dimension of a strided call; the other is a loop of calls.
[[nodiscard]] inline int inner_batch(const Matrix& c) { return c.batch[0] > c.batch[1] ? 0 : 1; }

// Called where cuBLASLt proposes no algorithm.
[[noreturn]] void throw_no_product(const Matrix& c, const Matrix& a);

}  // namespace paceline
