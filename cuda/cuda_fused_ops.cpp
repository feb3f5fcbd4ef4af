#include "cuda/cuda_fused_ops.h"

#include <utility>

#include "cuda/tuned_matmul.h"

namespace paceline {

CudaFusedOps::CudaFusedOps(CudaDevice& device, const OpsConfig& config)
    : CudaEagerOps(device, config) {
  if (config.deterministic) return;
  tuned_matmul_ =
      std::make_unique<CudaTunedMatmul>(device, config.precision.gemm, matmul_workspace());
}

CudaFusedOps::~CudaFusedOps() = default;

std::vector<Fusion> CudaFusedOps::fusions() const {
  std::vector<Fusion> fusions = {
      {.kernel = "add_rms_norm", .replaces = "add, rms_norm"},
      {.kernel = "cross_entropy_in_place", .replaces = "cross_entropy, cross_entropy_backward"}};
  if (precision().compute != precision().residual) {
    fusions.push_back({.kernel = "rms_norm_backward", .replaces = "rms_norm_backward, cast"});
  }
  if (config().attention == AttentionKind::naive) {
    fusions.push_back({.kernel = "masked_softmax", .replaces = "scale, causal_mask, softmax"});
  }
  return fusions;
}

ProductTuning* CudaFusedOps::product_tuning() { return tuned_matmul_.get(); }

void CudaFusedOps::multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                            double beta) {
  if (!tuned_matmul_) return CudaEagerOps::multiply(c, a, b, alpha, beta);
  tuned_matmul_->run(c, a, b, alpha, beta, multiprocessors_of_products());
}

Array CudaFusedOps::as_dtype(Array x, Dtype dtype) {
  const Tensor& of = rounded_.x;
  const bool is_rounded = !of.empty() && x.tensor().data == of.data && x.shape() == of.shape &&
                          dtype == rounded_.copy.dtype();
  return is_rounded ? std::exchange(rounded_, {}).copy : Ops::as_dtype(std::move(x), dtype);
}

// By value, as other overrides reuse it.  NOLINTNEXTLINE(performance-unnecessary-value-param)
Array CudaFusedOps::add_rms_norm_backward(Saved& saved, Array d_residual, Array d_normed,
                                          const Parameter& weight) {
  rounded_ = {};
  const std::vector<Array> kept = saved.take();
  const Array& residual = kept.at(0);
  const Array& rstd = kept.at(1);
  Array dx = activation(residual.shape(), precision().residual);
  Array copy;
  if (precision().compute != precision().residual) {
    copy = activation(residual.shape(), precision().compute);
  }
  const Scope scope = operation("rms_norm_backward",
                                {dx, copy, d_residual, d_normed, residual, rstd, weight.gradient});
  rms_norm_backward(dx, copy, d_residual, weight.gradient, d_normed, residual, weight.value, rstd,
                    weight.accumulate);
  if (!copy.empty()) rounded_ = {.x = dx, .copy = std::move(copy)};
  return dx;
}

// The last use of the residual stream's gradient, in the stream's dtype: the copy is not needed.
void CudaFusedOps::embed_backward(const Array& dy, const Tensor& tokens, const Parameter& table) {
  rounded_ = {};
  Ops::embed_backward(dy, tokens, table);
}

}  // namespace paceline
