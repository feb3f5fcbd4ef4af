#pragma once
// Ops: the mathematics of a training step, on the device's compute stream.
//
// A primitive is one device operation. All primitives are pure virtual except matmul(), which
// checks its operands and then calls one. The model is written in composites. Their default
// implementations (core/ops.cpp) are sequences of primitives, as in eager PyTorch; a device may
// override them with fused ones. A composite fills a Saved that only its own backward reads, so
// that the implementation chooses what to keep for backward.
//
// Dimensions: B batch, T context, D d_model, F d_ff, H heads, d head dimension, V vocabulary,
// R = B T rows. Tensors are contiguous. Every floating dtype is accepted unless said otherwise;
// half types are computed in float, float64 in float64. Weights are [out, in].

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/parameter_access.h"
#include "core/precision.h"
#include "core/random.h"
#include "core/step_state.h"
#include "core/tensor.h"

namespace paceline {

class ProductTuning;

enum class AttentionKind : std::uint8_t { naive, fused, flash };
constexpr auto names_of(AttentionKind) { return names("naive", "fused", "flash"); }
// How flash attention multiplies float32.
// exact: in float32.
// bf16x3: every operand is split into two bfloat16, high = bf16(x) and low = bf16(x - high); three
// products are added (high high, high low, low high).
// tf32: operands are rounded to the nearest tf32 (10 mantissa bits).
// Sums and softmax are float32 in all three.
enum class Fp32Attention : std::uint8_t { exact, bf16x3, tf32 };
constexpr auto names_of(Fp32Attention) { return names("exact", "bf16x3", "tf32"); }
// The GPU kernels of flash attention for half types and for fp32 as bf16x3. newest: written for the
// GPU's generation; sm80: for Ampere, which also run on every later GPU.
enum class FlashKernels : std::uint8_t { newest, sm80 };
constexpr auto names_of(FlashKernels) { return names("newest", "sm80"); }
// eager: one primitive after another. compiled: fused composites, matrix products by the algorithm
// that was fastest when timed, and the step captured into CUDA graphs.
enum class Execution : std::uint8_t { eager, compiled };
constexpr auto names_of(Execution) { return names("eager", "compiled"); }

struct OpsConfig {
  Precision precision;
  AttentionKind attention = AttentionKind::naive;
  Fp32Attention fp32_attention = Fp32Attention::bf16x3;
  FlashKernels flash_kernels = FlashKernels::newest;
  bool deterministic = false;
  Execution execution = Execution::eager;
};

// The arrays that a composite keeps for its backward.
class Saved {
 public:
  // keep = false (inference): save() does nothing.
  explicit Saved(bool keep = true) : keep_(keep) {}

  [[nodiscard]] bool keeps() const { return keep_; }
  void save(std::initializer_list<Array> arrays) {
    if (keep_) arrays_ = arrays;
  }
  [[nodiscard]] const std::vector<Array>& arrays() const { return arrays_; }
  // Moves the arrays out, so that backward can free each one after its last use.
  [[nodiscard]] std::vector<Array> take() { return std::move(arrays_); }

 private:
  bool keep_;
  std::vector<Array> arrays_;
};

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;

  bool operator==(const AdamWConfig&) const = default;
};

// A range of the parameter store: the same offsets in every array. m and v have the parameters'
// dtype; gradients may be bfloat16 while the parameters are float32.
struct AdamWRange {
  Tensor parameters;  // [n]
  Tensor gradients;   // [n]
  Tensor m;           // [n]
  Tensor v;           // [n]
  Tensor copy;        // [n] low-precision copy of the result, or empty
};

// The AdamW update of one parameter, as Ops::adamw() would do it, offered to product_backward(). If
// it takes the update, it sets `taken` and does not store the gradient; the parameter is updated by
// the next apply_updates().
struct WeightUpdate {
  AdamWRange range;
  const StepState* state = nullptr;
  AdamWConfig config;
  bool taken = false;
};

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  bool causal = true;  // position i attends to j <= i; false: to all
};

// Probabilities of the scores x: P = softmax(scale x). causal: elements j > i are masked.
struct ScoreOptions {
  double scale = 1;  // > 0
  bool causal = true;
};

// The kernels of one pass of flash attention, and the rows of their tiles.
struct FlashTiles {
  const char* kernels = "";  // "sm90", "sm80", "exact" or "cpu"
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t parts = 1;  // of a tile's inner loop, for different thread blocks
};
struct FlashPlan {
  FlashTiles forward;
  FlashTiles backward;
};

// A fused kernel.
struct Fusion {
  std::string kernel;
  std::string replaces;  // "add, rms_norm"
};

class Ops : NonCopyable {
 public:
  Ops(Device& device, const OpsConfig& config) : device_(device), config_(config) {}
  virtual ~Ops() = default;

  [[nodiscard]] Device& device() const { return device_; }
  [[nodiscard]] const OpsConfig& config() const { return config_; }
  [[nodiscard]] const Precision& precision() const { return config_.precision; }

  // Calls `work`; its operations run on `stream`. Only operations of the optimizer are allowed.
  virtual void on(Stream& stream, std::function<void()> work) { stream.enqueue(std::move(work)); }
  // Announces whether the following operations overlap with collectives, so that an implementation
  // can leave multiprocessors free for them.
  virtual void run_beside_collectives(bool /*beside*/) {}

  // The fused kernels and the primitives that each replaces.
  [[nodiscard]] virtual std::vector<Fusion> fusions() const { return {}; }
  // The tuning of matrix products where their algorithms are timed; else null.
  [[nodiscard]] virtual ProductTuning* product_tuning() { return nullptr; }

  // ---- primitives -------------------------------------------------------------------------
  virtual void cast(const Tensor& to, const Tensor& from) = 0;  // to = from, rounded to nearest
  virtual void fill(const Tensor& x, double value) = 0;         // also int32
  // x[i] = normal(u), u: element first + i of the random stream; rounded to float, then to x's
  // dtype
  virtual void fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                           std::int64_t first) = 0;
  virtual void add(const Tensor& y, const Tensor& a, const Tensor& b) = 0;  // y = a + b; may alias
  virtual void scale(const Tensor& x, double factor) = 0;                   // x *= factor

  // c = alpha op(a) op(b) + beta c, for every batch index; c is not transposed. op(a) [m, k],
  // op(b) [k, n], c [m, n]; a and b have the same dtype, c may have another. With beta = 0, c is
  // not read. Sums are in float (float64 for float64). Throws as check_product().
  void matmul(const Matrix& c, const Matrix& a, const Matrix& b, double alpha = 1, double beta = 0);

  // y[r] = table[tokens[r]].  y [R, D], tokens [R] int32, table [V, D]
  virtual void embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) = 0;
  // dtable[v] (+)= sum over r with tokens[r] = v of dy[r]
  virtual void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                                  bool accumulate) = 0;

  // rstd = 1 / sqrt(mean(x^2) + eps), y = x rstd w.  x, y [R, D], w [D], rstd [R] in statistics'
  // dtype
  virtual void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                        double eps) = 0;
  // With xh = x rstd and g = dy w: dx = dx_in + rstd (g - xh mean(g xh)), dw (+)= sum over rows of
  // dy xh. dx_in may be dx itself or empty (taken as 0).
  virtual void rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw,
                                 const Tensor& dy, const Tensor& x, const Tensor& w,
                                 const Tensor& rstd, bool accumulate_dw) = 0;

  // Rotates q and k in place by position: (x0, x1) = (c x0 - s x1, s x0 + c x1) for neighbouring
  // pairs; inverse rotates by the negative angle (backward).  qkv [B, T, 3, H, d], d even; table
  // [T, d/2, 2] holds (cos, sin) in the statistics' dtype. v is unchanged.
  virtual void rope(const Tensor& qkv, const Tensor& table, bool inverse) = 0;

  // z = silu(a) b, silu(a) = a / (1 + exp(-a)).  z [R, F], gate_up [R, 2F] = a | b
  virtual void swiglu(const Tensor& z, const Tensor& gate_up) = 0;
  // With s = sigmoid(a): da = dz b s (1 + a (1 - s)), db = dz silu(a).  d_gate_up may alias gate_up
  virtual void swiglu_backward(const Tensor& d_gate_up, const Tensor& dz,
                               const Tensor& gate_up) = 0;

  // scores[..., i, j] = -infinity where j > i.  scores [N, T, T]
  virtual void causal_mask(const Tensor& scores) = 0;
  // y = exp(x - max) / sum over the last dimension; y may be x.  [..., n]
  virtual void softmax(const Tensor& y, const Tensor& x) = 0;
  // dx = y (dy - sum(dy y)); dx may be dy.
  virtual void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) = 0;

  // y[..., i, :] = softmax(scale x[..., i, :]) over the unmasked columns of row i. Masked columns
  // are not read, and are 0 in y. y may be x.  [..., T, T]
  virtual void masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) = 0;
  // dx = scale y (dy - sum(dy y)), the gradient with respect to x. Masked columns are not read, and
  // are 0 in dx. dx may be dy.  [..., T, T]
  virtual void masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                                       const ScoreOptions& scores) = 0;

  // FlashAttention-2 (Dao, arXiv:2307.08691, algorithms 1 and 2); no T x T matrix is kept. With
  // S = scale q k^T and P = softmax(S): o = P v, logsumexp[i] = log(sum_j exp(S[i, j])).
  // q, k, v, o: the same dtype, strided; logsumexp [B, H, T] float32 (float64 for float64). The CPU
  // supports any T and d. Products of float32 follow config().fp32_attention; with half types, P is
  // rounded to the half type. Throws InternalError if shapes or dtypes disagree.
  virtual void flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q,
                               const Heads& k, const Heads& v, const ScoreOptions& scores) = 0;
  // With P = exp(S - logsumexp), D = rowsum(d_o o) and dS = P (d_o v^T - D): dv = P^T d_o,
  // dq = scale dS k, dk = scale dS^T q. All Heads have the same shape and dtype; strides may
  // differ.
  virtual void flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv,
                                        const Heads& d_o, const Heads& q, const Heads& k,
                                        const Heads& v, const Heads& o, const Tensor& logsumexp,
                                        const ScoreOptions& scores) = 0;
  // The kernels for this shape, in the compute dtype.
  [[nodiscard]] virtual FlashPlan flash_plan(const AttentionShape& shape) const = 0;

  // logsumexp[r] = log(sum(exp(logits[r]))), loss = mean(logsumexp[r] - logits[r, targets[r]]) over
  // the rows that have a target; at least one row must have one.
  // loss [1], logsumexp [R], logits [R, V], targets [R] int32 or no_target
  virtual void cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                             const Tensor& targets) = 0;
  // dlogits = (softmax(logits) - onehot(targets)) loss_scale / ((R - state.without_target) ranks),
  // and 0 in rows without a target; dlogits may be logits.
  virtual void cross_entropy_backward(const Tensor& dlogits, const Tensor& logits,
                                      const Tensor& logsumexp, const Tensor& targets,
                                      const StepState& state) = 0;

  // y[r] = sum_j x[r, j] w[j] (the handout's worked example).  x [R, D], w [D], y [R]
  virtual void weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) = 0;
  // dx[r, j] = dy[r] w[j], dw[j] = sum_r dy[r] x[r, j]
  virtual void weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy,
                                     const Tensor& x, const Tensor& w) = 0;

  // parameters -= learning_rate gradients
  virtual void sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) = 0;

  // found_inf = any element of x is not finite ? 1 : found_inf
  virtual void check_finite(const StepState& state, const Tensor& x) = 0;
  // Updates the scalars of the optimizer step, once per step and before adamw(). Unless the step is
  // skipped (found_inf), step += 1 and the bias corrections are computed. gradient_scale =
  // 1 / loss_scale. Then, with loss scaling, loss_scale halves after a skipped step and doubles
  // after 2000 good ones (torch.amp.GradScaler).
  virtual void begin_optimizer_step(const StepState& state, const AdamWConfig& config) = 0;
  // torch.optim.AdamW, with g = gradient gradient_scale and lr = learning_rate:
  // p *= 1 - lr wd; m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2;
  // p -= lr / bc1 m / (sqrt(v / bc2) + eps). A skipped step changes nothing.
  virtual void adamw(const AdamWRange& range, const StepState& state,
                     const AdamWConfig& config) = 0;
  // found_inf = 0. Called after the step's last adamw().
  virtual void end_optimizer_step(const StepState& state) = 0;

  // ---- composites -------------------------------------------------------------------------
  // Composites return newly allocated activations. They overwrite the gradients of parameters, or
  // add to them if Parameter::accumulate is set.

  // tokens [B, T] -> [B, T, D] in the residual stream's dtype
  virtual Array embed(const Tensor& tokens, const Parameter& table);
  virtual void embed_backward(const Array& dy, const Tensor& tokens, const Parameter& table);

  // After backward's last product: enqueues the updates that products took (WeightUpdate).
  virtual void apply_updates() {}

  struct Normed {
    Array residual;  // x + branch
    Array normed;    // its RMSNorm, in the compute dtype
  };
  // x [B, T, D]: the residual stream; branch [B, T, D]: a sublayer's output that is added to it, or
  // empty
  virtual Normed add_rms_norm(Saved& saved, Array x, Array branch, const Parameter& weight);
  // d_residual: the gradient of Normed::residual from its other uses. Returns the gradient of x,
  // which is also the gradient of branch.
  virtual Array add_rms_norm_backward(Saved& saved, Array d_residual, Array d_normed,
                                      const Parameter& weight);

  // x [..., in], weight [out, in] -> [..., out]
  virtual Array linear(Saved& saved, Array x, const Parameter& weight);
  virtual Array linear_backward(Saved& saved, Array dy, const Parameter& weight);

  // x [B, T, D], weight [3 D, D] (q, k, v) -> [B, T, 3, H, d], q and k rotated
  virtual Array qkv_rope(Saved& saved, Array x, const Parameter& weight, const Tensor& rope_table,
                         const AttentionShape& shape);
  virtual Array qkv_rope_backward(Saved& saved, Array dqkv, const Parameter& weight,
                                  const Tensor& rope_table);

  // Attention of every head: softmax(q k^T / sqrt(d)) v.  qkv [B, T, 3, H, d] -> [B, T, H d].
  // core/attention.cpp; naive and fused keep qkv and P, flash keeps qkv, the result and logsumexp.
  virtual Array attention(Saved& saved, Array qkv, const AttentionShape& shape);
  virtual Array attention_backward(Saved& saved, Array dy, const AttentionShape& shape);

  // x [B, T, D], weight [2 F, D] (w1, w3) -> silu(x w1^T) (x w3^T)  [B, T, F]
  virtual Array swiglu_linear(Saved& saved, Array x, const Parameter& weight);
  virtual Array swiglu_linear_backward(Saved& saved, Array dz, const Parameter& weight);
  // Recomputes the result of swiglu_linear() from what it kept.
  [[nodiscard]] Array swiglu_again(const Saved& saved);

  struct Head {
    const Parameter& norm;    // [D]
    const Parameter& linear;  // [V, D]
    const StepState& state;   // reads targets, writes loss
    Tensor logits;            // [B, T, V] float32: receives a copy of the logits; or empty
  };
  // The final norm, the logits and the loss of the residual stream x + branch. One composite, so
  // that an implementation that computes forward and backward at once need not keep all logits.
  virtual void head(Saved& saved, Array x, Array branch, const Head& head);
  virtual Array head_backward(Saved& saved, const Head& head);  // the gradient of x and of branch

 protected:
  static constexpr double norm_eps = 1e-5;

  // Implements matmul(), which has checked the operands.
  virtual void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                        double beta) = 0;

  // The Scope of an operation that reads or writes each of `tensors` once.
  [[nodiscard]] Scope operation(std::string_view name, std::initializer_list<Tensor> tensors,
                                double flops = 0) const;
  [[nodiscard]] Array activation(const Shape& shape, Dtype dtype) const {
    return device_.allocate(shape, dtype, MemoryKind::activation);
  }
  // x itself if it has this dtype, else a copy cast to it.
  [[nodiscard]] virtual Array as_dtype(Array x, Dtype dtype);
  // product: returns x W^T. product_backward: dW (+)= dy^T x or the weight's update, frees x, and
  // returns dy W.
  [[nodiscard]] Array product(const Array& x, const Parameter& weight, Dtype dtype);
  [[nodiscard]] virtual Array product_backward(Array x, const Array& dy, const Parameter& weight);
  // In place: turns the scores q k^T of naive attention into P.
  virtual void naive_probabilities(const Tensor& scores, const AttentionShape& shape);
  void fused_probabilities(const Tensor& scores, const AttentionShape& shape);

 private:
  Array attention_by_flash(Saved& saved, Array qkv, const AttentionShape& shape);
  Array attention_by_flash_backward(Saved& saved, const Array& dy, const AttentionShape& shape);
  void probabilities(const Tensor& scores, const AttentionShape& shape);
  [[nodiscard]] double probabilities_backward(const Tensor& dp, const Tensor& p,
                                              const AttentionShape& shape);

  Device& device_;
  OpsConfig config_;
};

}  // namespace paceline
