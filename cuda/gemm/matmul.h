#pragma once
// Matrix products through cuBLASLt. Descriptors, layouts and algorithm are cached by shape, dtype
// and transposition.

#include <map>
#include <memory>
#include <tuple>

#include "core/non_copyable.h"
#include "core/ops.h"
#include "cuda/gemm/matmul_plan.h"

namespace paceline {

class CudaMatmul : NonCopyable {
 public:
  // math: for float32 inputs; workspace: device memory for cuBLASLt, which must outlive this
  // object.
  CudaMatmul(cudaStream_t stream, GemmMath math, Tensor workspace)
      : library_(stream, math, workspace) {}

  // Ops::matmul, with the algorithm that cuBLASLt estimates to be the fastest on `multiprocessors`
  // multiprocessors (0: all). With a second batch dimension, one call per index of it.
  void run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta,
           int multiprocessors);

 private:
  // The key of a plan: the operands' shapes, strides and dtypes, whether c is read, and the number
  // of multiprocessors.
  using Operand = std::tuple<Dtype, std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>;
  using Key = std::tuple<Operand, Operand, Operand, std::int64_t, bool, int>;
  struct Planned {
    std::unique_ptr<MatmulPlan> plan;
    cublasLtMatmulAlgo_t algorithm{};
  };

  [[nodiscard]] const Planned& plan(const Matrix& c, const Matrix& a, const Matrix& b, bool reads_c,
                                    int multiprocessors);
  [[nodiscard]] Planned make_plan(const Matrix& c, const Matrix& a, const Matrix& b,
                                  int multiprocessors) const;

  CublasLt library_;
  std::map<Key, Planned> plans_;
};

}  // namespace paceline
