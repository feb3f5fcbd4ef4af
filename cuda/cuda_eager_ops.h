#pragma once
// CudaEagerOps: one kernel per primitive, as eager PyTorch does, on the device's compute stream.
// float32, bfloat16 and float16; arithmetic and reductions in float32. No operation waits for the
// GPU or allocates outside of the device's allocator, so that a step can be captured into a graph.

#include <cuda_runtime.h>

#include <functional>
#include <memory>

#include "core/ops.h"
#include "cuda/runtime/scratch.h"

namespace paceline {

class CudaDevice;
class CudaMatmul;

class CudaEagerOps : public Ops {
 public:
  CudaEagerOps(CudaDevice& device, const OpsConfig& config);
  ~CudaEagerOps() override;

  void on(Stream& stream, std::function<void()> work) override;
  void run_beside_collectives(bool beside) override { beside_collectives_ = beside; }

  void cast(const Tensor& to, const Tensor& from) override;
  void fill(const Tensor& x, double value) override;
  void fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                   std::int64_t first) override;
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override;
  void scale(const Tensor& x, double factor) override;

  void embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) override;
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                          bool accumulate) override;

  void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                double eps) override;
  void rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw, const Tensor& dy,
                         const Tensor& x, const Tensor& w, const Tensor& rstd,
                         bool accumulate_dw) override;

  void rope(const Tensor& qkv, const Tensor& table, bool inverse) override;
  void swiglu(const Tensor& z, const Tensor& gate_up) override;
  void swiglu_backward(const Tensor& d_gate_up, const Tensor& dz, const Tensor& gate_up) override;

  void causal_mask(const Tensor& scores) override;
  void softmax(const Tensor& y, const Tensor& x) override;
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override;
  void masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) override;
  void masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                               const ScoreOptions& scores) override;

  void flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q, const Heads& k,
                       const Heads& v, const ScoreOptions& scores) override;
  void flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv, const Heads& d_o,
                                const Heads& q, const Heads& k, const Heads& v, const Heads& o,
                                const Tensor& logsumexp, const ScoreOptions& scores) override;
  [[nodiscard]] FlashPlan flash_plan(const AttentionShape& shape) const override;

  void cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                     const Tensor& targets) override;
  void cross_entropy_backward(const Tensor& dlogits, const Tensor& logits, const Tensor& logsumexp,
                              const Tensor& targets, const StepState& state) override;

  void weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) override;
  void weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy, const Tensor& x,
                             const Tensor& w) override;

  void sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) override;

  void check_finite(const StepState& state, const Tensor& x) override;
  void begin_optimizer_step(const StepState& state, const AdamWConfig& config) override;
  void adamw(const AdamWRange& range, const StepState& state, const AdamWConfig& config) override;
  void end_optimizer_step(const StepState& state) override;

 protected:
  // rms_norm_backward() that also writes dx in dy's dtype to `rounded`, unless that is empty.
  void rms_norm_backward(const Tensor& dx, const Tensor& rounded, const Tensor& dx_in,
                         const Tensor& dw, const Tensor& dy, const Tensor& x, const Tensor& w,
                         const Tensor& rstd, bool accumulate_dw);
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] float* scratch(std::int64_t floats) { return scratch_.floats(floats); }
  [[nodiscard]] const Tensor& matmul_workspace() const { return matmul_workspace_.tensor(); }
  // Multiprocessors that collectives leave to products at present; 0: all.
  [[nodiscard]] int multiprocessors_of_products() const;
  void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                double beta) override;

 private:
  cudaStream_t stream_;
  int multiprocessors_;
  bool beside_collectives_ = false;
  Array matmul_workspace_;
  std::unique_ptr<CudaMatmul> matmul_;
  Scratch scratch_;
};

}  // namespace paceline
