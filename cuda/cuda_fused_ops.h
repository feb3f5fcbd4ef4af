#pragma once
// CudaFusedOps: the composites of a compiled step, fused into as few passes over memory as
// possible. Primitives are those of CudaEagerOps, except products: each uses the cuBLASLt algorithm
// that was the fastest when timed. Results differ from eager results only by rounding.

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "cuda/cuda_eager_ops.h"
#include "cuda/fused/weight_update.h"

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
  void apply_updates() override;

  // cuda/fused/head.cpp. If a backward pass follows, the gradient of the logits is computed with
  // the loss. If the logits exceed limit_logits(), they are computed in parts, one in memory at a
  // time: in forward for the loss, and again in backward.
  void head(Saved& saved, Array x, Array branch, const Head& head) override;
  Array head_backward(Saved& saved, const Head& head) override;
  void limit_logits(std::int64_t bytes) { max_logit_bytes_ = bytes; }

  // Which updates are fused with their weights' gradients (NOTES.md): those of weights of at least
  // min_elements elements, whose gradients are sums over min_rows to max_rows rows of activations.
  // They wait until together they have `at_once` elements, and are then done in one kernel. A new
  // object has the limits that pay on an H200.
  struct UpdateLimits {
    std::int64_t min_rows = 1;
    std::int64_t max_rows = std::numeric_limits<std::int64_t>::max();
    std::int64_t min_elements = 1;
    std::int64_t at_once = 1;
  };
  void limit_updates(const UpdateLimits& limits) { update_limits_ = limits; }

  // cross_entropy() and cross_entropy_backward() in one pass, for some of the step's `rows_of_step`
  // rows: `loss` is their contribution to the mean, and `logits` are overwritten with their
  // gradient.
  void cross_entropy_in_place(const Tensor& loss, const Tensor& logits, const Tensor& targets,
                              const StepState& state, std::int64_t rows_of_step);

 protected:
  void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                double beta) override;
  [[nodiscard]] Array as_dtype(Array x, Dtype dtype) override;
  void naive_probabilities(const Tensor& scores, const AttentionShape& shape) override {
    fused_probabilities(scores, shape);
  }

  [[nodiscard]] Array product_backward(Array x, const Array& dy, const Parameter& weight) override;

 private:
  [[nodiscard]] bool updates_with_product(const Tensor& x, const Tensor& dy,
                                          const Parameter& weight) const;
  UpdateLimits update_limits_;
  bool updates_weights_ = false;  // some weight was updated together with its gradient
  // The updates that wait to be done in one kernel, and their elements.
  std::vector<WeightProduct> updates_;
  std::int64_t updated_elements_ = 0;

  // The result of the last add_rms_norm_backward(), and the same in the dtype that as_dtype() will
  // be asked for. Holding the result keeps its address from being reused.
  struct Rounded {
    Array x;
    Array copy;
  };
  Rounded rounded_;

  // Calls f(first, gradient) for consecutive parts of the rows: the gradient of the logits of the
  // rows from `first` on. The loss is the mean over all rows.
  template <class F>
  void for_each_logit_gradient(const Tensor& normed, const Head& head, F f);
  [[nodiscard]] std::int64_t logit_rows(const Head& head) const;
  std::int64_t max_logit_bytes_ = std::int64_t{512} << 20U;
  // Null for OpsConfig::deterministic: the fastest algorithm may differ from run to run.
  std::unique_ptr<CudaTunedMatmul> tuned_matmul_;
};

}  // namespace paceline
