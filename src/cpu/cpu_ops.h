#pragma once
// CpuOps: every primitive on the CPU; the oracle for every other device. float32 tensors are
// computed in float, half types too (converted row by row), float64 in double.

#include "core/ops.h"

namespace paceline {

class CpuOps final : public Ops {
 public:
  using Ops::Ops;

  // elementwise.cpp
  void cast(const Tensor& to, const Tensor& from) override;
  void fill(const Tensor& x, double value) override;
  void fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                   std::int64_t first) override;
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void scale(const Tensor& x, double factor) override;
  void swiglu(const Tensor& z, const Tensor& gate_up) override;
  void swiglu_backward(const Tensor& d_gate_up, const Tensor& dz, const Tensor& gate_up) override;

  // token_ops.cpp; ids outside [0, V) throw InternalError
  void embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) override;
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                          bool accumulate) override;
  void cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                     const Tensor& targets) override;
  void cross_entropy_backward(const Tensor& dlogits, const Tensor& logits, const Tensor& logsumexp,
                              const Tensor& targets, const StepState& state) override;

  // row_sums.cpp
  void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                double eps) override;
  void rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw, const Tensor& dy,
                         const Tensor& x, const Tensor& w, const Tensor& rstd,
                         bool accumulate_dw) override;
  void weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) override;
  void weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy, const Tensor& x,
                             const Tensor& w) override;

  // attention_ops.cpp
  void rope(const Tensor& qkv, const Tensor& table, bool inverse) override;
  void causal_mask(const Tensor& scores) override;
  void softmax(const Tensor& y, const Tensor& x) override;
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override;
  void masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) override;
  void masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                               const ScoreOptions& scores) override;

  // flash_attention.cpp
  void flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q, const Heads& k,
                       const Heads& v, const ScoreOptions& scores) override;
  void flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv, const Heads& d_o,
                                const Heads& q, const Heads& k, const Heads& v, const Heads& o,
                                const Tensor& logsumexp, const ScoreOptions& scores) override;
  [[nodiscard]] FlashPlan flash_plan(const AttentionShape& shape) const override;

  // optimizer.cpp
  void sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) override;
  void check_finite(const StepState& state, const Tensor& x) override;
  void begin_optimizer_step(const StepState& state, const AdamWConfig& config) override;
  void adamw(const AdamWRange& range, const StepState& state, const AdamWConfig& config) override;
  void end_optimizer_step(const StepState& state) override;

 private:
  // gemm.cpp
  void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                double beta) override;

  [[nodiscard]] Array workspace(const Shape& shape, Dtype dtype) const {
    return device().allocate(shape, dtype, MemoryKind::workspace);
  }
  [[nodiscard]] static double& scalar(const StepState& state, StepScalar which) {
    return state.scalars.tensor().as<double>()[static_cast<int>(which)];
  }
};

}  // namespace paceline
