#pragma once
// A matrix product as cuBLASLt takes it: its descriptor and layouts, made once, and the algorithms
// that compute it.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/matrix.h"
#include "core/non_copyable.h"
#include "core/precision.h"
#include "cuda/product_cache.h"

namespace paceline {

// What every call to cuBLASLt shares.
struct CublasLt : NonCopyable {
  // math: of float32 inputs; workspace: device memory that cuBLASLt may use; must outlive this.
  CublasLt(cudaStream_t on_stream, GemmMath float_math, Tensor workspace_memory);
  ~CublasLt();

  cublasLtHandle_t handle = nullptr;
  cudaStream_t stream;
  GemmMath math;
  Tensor workspace;
};

// The parameters that tell one algorithm from another, in the order of
// cublasLtMatmulAlgoConfigAttributes_t.
using AlgorithmConfig = std::array<std::uint32_t, 9>;
[[nodiscard]] AlgorithmConfig config_of(const cublasLtMatmulAlgo_t& algorithm);
// "id 66 tile 20 stages 36 ...", by cublasLt.h's numbers.
[[nodiscard]] std::string text_of(const AlgorithmConfig& config);

// What algorithms are asked for.
struct ProposalLimits {
  std::size_t workspace_bytes = 0;
  float waves = 0;  // of blocks over the GPU, at most; 0: any number
};

class MatmulPlan : NonCopyable {
 public:
  // multiprocessors: on which the product may count; 0: all. Strided: of the longer batch
  // dimension; pointers: of both.
  MatmulPlan(const CublasLt& library, const Matrix& c, const Matrix& a, const Matrix& b,
             int multiprocessors, Batching batching);
  ~MatmulPlan();

  // At most `most` algorithms, the one that cuBLASLt takes to be the fastest first.
  [[nodiscard]] std::vector<cublasLtMatmulAlgo_t> proposals(const CublasLt& library,
                                                            const ProposalLimits& limits,
                                                            int most) const;
  // Whether cuBLASLt computes this product by that algorithm in its workspace.
  [[nodiscard]] bool accepts(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm) const;

  // One call. Strided: the addresses of the operands' first elements; pointers: of device memory
  // that holds every batch's address.
  cublasStatus_t call(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm, void* c,
                      const void* a, const void* b, double alpha, double beta) const;
  // Strided: a call per index of the shorter batch dimension. The operands are those of the
  // constructor or others of the same shapes, strides and alignments.
  cublasStatus_t run(const CublasLt& library, const cublasLtMatmulAlgo_t& algorithm,
                     const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                     double beta) const;

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr;
  cublasLtMatrixLayout_t b_ = nullptr;
  cublasLtMatrixLayout_t c_ = nullptr;
  std::uint32_t reductions_;                 // of split k that are allowed
  std::array<std::uint32_t, 3> alignments_;  // of c, a, b in bytes
};

// The batch dimension that goes into a strided call; the other is looped over.
[[nodiscard]] inline int inner_batch(const Matrix& c) { return c.batch[0] > c.batch[1] ? 0 : 1; }

// Where cuBLASLt proposes no algorithm.
[[noreturn]] void throw_no_product(const Matrix& c, const Matrix& a);

}  // namespace paceline
