#pragma once
// Matrix products through cuBLASLt. Descriptors, layouts and the algorithm are made once per shape,
// dtype and transposition and kept.

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <map>
#include <tuple>
#include <vector>

#include "core/non_copyable.h"
#include "core/ops.h"

namespace paceline {

class CudaMatmul : NonCopyable {
 public:
  // math: of float32 inputs; workspace: device memory that cuBLASLt may use; must outlive this.
  CudaMatmul(cudaStream_t stream, GemmMath math, Tensor workspace);
  ~CudaMatmul();

  // Ops::matmul, by the algorithm that cuBLASLt takes to be the fastest on so many multiprocessors
  // (0: all). A second batch dimension costs one call per index of it.
  void run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta,
           int multiprocessors);

 private:
  // What distinguishes one plan from another: the operands' shapes, strides, dtypes, whether c is
  // read, and the number of multiprocessors.
  using Operand = std::tuple<Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  using Key = std::tuple<Operand, Operand, Operand, std::int64_t, bool, int>;
  struct Plan {
    cublasLtMatmulDesc_t operation = nullptr;
    cublasLtMatrixLayout_t a = nullptr;
    cublasLtMatrixLayout_t b = nullptr;
    cublasLtMatrixLayout_t c = nullptr;
    cublasLtMatmulAlgo_t algorithm{};
  };

  [[nodiscard]] const Plan& plan(const Matrix& c, const Matrix& a, const Matrix& b, int inner,
                                 bool reads_c, int multiprocessors);
  [[nodiscard]] Plan make_plan(const Matrix& c, const Matrix& a, const Matrix& b, int inner,
                               bool reads_c, int multiprocessors) const;

  cublasLtHandle_t handle_ = nullptr;
  cudaStream_t stream_;
  cublasComputeType_t float_compute_;  // of float32 inputs: true float32, or TF32
  Tensor workspace_;
  std::map<Key, Plan> plans_;
};

}  // namespace paceline
