#include "cuda/cuda_fused_ops.h"

#include <utility>

#include "cuda/fused/weight_update.h"
#include "cuda/gemm/tuned_matmul.h"
#include "cuda/runtime/current_device.h"

namespace paceline {

CudaFusedOps::CudaFusedOps(CudaDevice& device, const OpsConfig& config)
    : CudaEagerOps(device, config) {
  constexpr std::int64_t tile = 128 * 128;
  limit_updates({.min_rows = 512,
                 .max_rows = 4096,
                 .min_elements = 32 * tile,
                 .at_once = 16 * tile * multiprocessors()});
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
  if (updates_weights_) {
    fusions.push_back({.kernel = "sm90_weight_update", .replaces = "matmul, adamw"});
  }
  return fusions;
}

ProductTuning* CudaFusedOps::product_tuning() { return tuned_matmul_.get(); }

void CudaFusedOps::multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                            double beta) {
  if (!tuned_matmul_) return CudaEagerOps::multiply(c, a, b, alpha, beta);
  tuned_matmul_->run(c, a, b, alpha, beta, multiprocessors_of_products());
}

Array CudaFusedOps::product_backward(Array x, const Array& dy, const Parameter& weight) {
  if (!updates_with_product(x, dy, weight)) {
    return Ops::product_backward(std::move(x), dy, weight);
  }
  Array dx = activation(x.shape(), precision().compute);
  matmul(Matrix(dx), Matrix(dy), Matrix(weight.compute));  // reads the weight before its update
  const auto fits = [&](const WeightProduct& other) {
    return other.x.tensor().rows() == x.tensor().rows() &&
           other.update.config == weight.update->config;
  };
  if (!updates_.empty() && !fits(updates_.front())) apply_updates();
  updated_elements_ += weight.update->range.parameters.numel();
  updates_.push_back({.dy = dy, .x = std::move(x), .update = *weight.update});
  weight.update->taken = true;
  updates_weights_ = true;
  if (updated_elements_ >= update_limits_.at_once || updates_.size() == max_weights_of_update) {
    apply_updates();
  }
  return dx;
}

void CudaFusedOps::apply_updates() {
  if (updates_.empty()) return;
  OpWork work;
  for (const auto& [dy, x, update] : updates_) {
    const AdamWRange& range = update.range;
    work.flops += 2 * static_cast<double>(range.parameters.numel() * x.tensor().rows());
    work.bytes += static_cast<double>(dy.tensor().bytes() + x.tensor().bytes() +
                                      6 * range.parameters.bytes() + range.copy.bytes());
  }
  const Scope scope(device().scopes(), "weight_update", work);
  sm90_weight_update(updates_, stream());
  updates_.clear();
  updated_elements_ = 0;
}

bool CudaFusedOps::updates_with_product(const Tensor& x, const Tensor& dy,
                                        const Parameter& weight) const {
  if (weight.update == nullptr || config().deterministic || compute_capability() != 90)
    return false;
  const AdamWRange& range = weight.update->range;
  const bool mixed = x.dtype == Dtype::bf16 && dy.dtype == Dtype::bf16 &&
                     weight.gradient.dtype == Dtype::f32 && range.parameters.dtype == Dtype::f32 &&
                     range.copy.dtype == Dtype::bf16;
  constexpr std::int64_t multiple = 8;  // columns, for TMA
  const UpdateLimits& limits = update_limits_;
  return mixed && !weight.accumulate && x.cols() % multiple == 0 && dy.cols() % multiple == 0 &&
         x.rows() >= limits.min_rows && x.rows() <= limits.max_rows &&
         range.parameters.numel() >= limits.min_elements;
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
