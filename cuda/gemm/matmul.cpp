#include "cuda/gemm/matmul.h"

#include <fmt/format.h>

#include <vector>

#include "cuda/gemm/cublaslt.h"
#include "cuda/gemm/product.h"
#include "cuda/runtime/check.h"

namespace paceline {

void CudaMatmul::run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta,
                     int multiprocessors) {
  const Planned& p = plan(c, a, b, beta != 0, multiprocessors);
  CUDA_CHECK(p.plan->run(library_, p.algorithm, c, a, b, alpha, beta));
}

const CudaMatmul::Planned& CudaMatmul::plan(const Matrix& c, const Matrix& a, const Matrix& b,
                                            bool reads_c, int multiprocessors) {
  const auto inner = static_cast<std::size_t>(inner_batch(c));
  const auto operand = [&](const Matrix& m) {
    return Operand{m.tensor.dtype,
                   m.rows,
                   m.cols,
                   m.row_stride,
                   m.batch_stride.at(inner) * 512 + alignment_of(m),
                   m.transposed};
  };
  const Key key{operand(c), operand(a), operand(b), c.batch.at(inner), reads_c, multiprocessors};
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  return plans_.emplace(key, make_plan(c, a, b, multiprocessors)).first->second;
}

CudaMatmul::Planned CudaMatmul::make_plan(const Matrix& c, const Matrix& a, const Matrix& b,
                                          int multiprocessors) const {
  Planned p{
      .plan = std::make_unique<MatmulPlan>(library_, c, a, b, multiprocessors, Batching::strided)};
  const ProposalLimits limits{.workspace_bytes = library_.workspace.bytes()};
  const std::vector<cublasLtMatmulAlgo_t> best = p.plan->proposals(library_, limits, 1);
  if (best.empty()) throw_no_product(c, a);
  p.algorithm = best.front();
  return p;
}

}  // namespace paceline
