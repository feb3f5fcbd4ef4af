#pragma once
// Matrix products through cuBLASLt, with the algorithm that was the fastest when timed; the cost of
// its graph nodes in a captured step is added. A product is timed at its first use, unless a file
// has the choice of an earlier run.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/ops.h"
#include "core/product_tuning.h"
#include "cuda/gemm/batch_pointers.h"
#include "cuda/gemm/matmul_plan.h"
#include "cuda/gemm/product.h"
#include "cuda/gemm/product_cache.h"
#include "cuda/runtime/cuda_device.h"

namespace paceline {

class CudaTunedMatmul final : public ProductTuning {
 public:
  // math: for float32 inputs; workspace: device memory for cuBLASLt, which must outlive this
  // object.
  CudaTunedMatmul(CudaDevice& device, GemmMath math, Tensor workspace);

  // Ops::matmul on at most `multiprocessors` multiprocessors (0: all). The first call for a product
  // may time it. That allocates and waits for the device, so during a capture it throws
  // InternalError.
  void run(const Matrix& c, const Matrix& a, const Matrix& b, double alpha, double beta,
           int multiprocessors);

  [[nodiscard]] std::string choices() const override;
  bool take(const std::string& choices) override;
  [[nodiscard]] std::vector<TunedProduct> products() const override;
  [[nodiscard]] double seconds() const override { return seconds_; }

 private:
  enum class Source : std::uint8_t { timed, file, rank_0 };
  struct Planned {
    std::string text;  // of the product
    std::unique_ptr<MatmulPlan> strided;
    std::unique_ptr<MatmulPlan> pointers;           // of products with two batch dimensions
    std::unique_ptr<BatchPointerArrays> addresses;  // for `pointers`
    ProductChoice choice;
    cublasLtMatmulAlgo_t algorithm{};
    Source source = Source::timed;
  };
  struct Candidate {
    cublasLtMatmulAlgo_t algorithm;
    Batching batching;
  };
  struct Operands {
    const Matrix& c;
    const Matrix& a;
    const Matrix& b;
    double alpha;
    double beta;
  };

  [[nodiscard]] const Planned& planned(const Product& product, const Operands& operands);
  [[nodiscard]] Planned make_plan(const Product& product, const Operands& operands);
  // False if cuBLASLt does not accept the choice.
  [[nodiscard]] bool adopt(Planned& planned, const ProductChoice& choice, Source source) const;
  [[nodiscard]] std::vector<Candidate> candidates(const Planned& planned) const;
  [[nodiscard]] ProductChoice timed(const Planned& planned, const Operands& operands) const;
  cublasStatus_t enqueue(const Planned& planned, const Candidate& candidate,
                         const Operands& operands) const;

  CudaDevice& device_;
  CublasLt library_;
  ProductCache cache_;
  ProductChoices choices_;
  std::map<Product, Planned> plans_;
  double seconds_ = 0;
};

}  // namespace paceline
