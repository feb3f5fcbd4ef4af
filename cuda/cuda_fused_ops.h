#pragma once
// CudaFusedOps: composites of a compiled step, each in as few passes over memory as it can be.
// Primitives are CudaEagerOps' but for products, which are computed by the algorithm that was the
// fastest when timed. Results differ from eager's by rounding alone.

#include <memory>

#include "cuda/cuda_eager_ops.h"

namespace paceline {

class CudaTunedMatmul;

class CudaFusedOps final : public CudaEagerOps {
 public:
  CudaFusedOps(CudaDevice& device, const OpsConfig& config);
  ~CudaFusedOps() override;

  [[nodiscard]] std::vector<Fusion> fusions() const override;
  [[nodiscard]] ProductTuning* product_tuning() override;

  Normed add_rms_norm(Saved& saved, Array x, Array branch, const Parameter& weight) override;
  Array add_rms_norm_backward(Saved& saved, Array d_residual, Array d_normed,
                              const Parameter& weight) override;
  void embed_backward(const Array& dy, const Tensor& tokens, const Parameter& table) override;

  // cuda/fused/head.cpp. The logits' gradient is computed with the loss where a backward pass
  // follows. Of more logits than limit_logits() says only a part is in memory at any time: computed
  // in forward for the loss, and again in backward.
  void head(Saved& saved, Array x, Array branch, const Head& head) override;
  Array head_backward(Saved& saved, const Head& head) override;
  void limit_logits(std::int64_t bytes) { most_logit_bytes_ = bytes; }

  // cross_entropy() and cross_entropy_backward() in one pass, of rows that are a part of
  // `rows_of_step`: loss is their part of the mean, and logits become their gradient.
  void cross_entropy_in_place(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                              const StepState& state, std::int64_t rows_of_step);

 protected:
  void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                double beta) override;
  [[nodiscard]] Array as_dtype(Array x, Dtype dtype) override;

 private:
  // The last add_rms_norm_backward()'s result, and what as_dtype() would cast it to, until either
  // is asked for. It holds the result, so that nothing else can come to lie at its address.
  struct Rounded {
    Array x;
    Array copy;
  };
  Rounded rounded_;

  // Calls f(first, gradient) for parts of the rows, in order: the gradient of the logits of the
  // rows from `first` on. The loss is that of all rows.
  template <class F>
  void for_each_logit_gradient(const Tensor& normed, const Head& head, F f);
  [[nodiscard]] std::int64_t logit_rows(const Head& head) const;
  std::int64_t most_logit_bytes_ = std::int64_t{512} << 20U;
  // Null for OpsConfig::deterministic: what is the fastest is not the same from run to run.
  std::unique_ptr<CudaTunedMatmul> tuned_matmul_;
};

}  // namespace paceline
