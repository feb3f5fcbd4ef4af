#include "experiments/precision/op_log.h"

namespace paceline {

namespace {

// Composites are inherited from Ops, which runs them as primitives (eager execution).
class LoggedOps final : public Ops {
 public:
  LoggedOps(Device& device, const OpsConfig& config, OpLog& log)
      : Ops(device, config), ops_(device.make_ops(config)), log_(log) {}

  void cast(const Tensor& to, const Tensor& from) override {
    note("cast", {{"to", to}, {"from", from}});
    ops_->cast(to, from);
  }
  void fill(const Tensor& x, double value) override {
    note("fill", {{"x", x}});
    ops_->fill(x, value);
  }
  void fill_normal(const Tensor& x, const Random& random, const TruncatedNormal& normal,
                   std::int64_t first) override {
    note("fill_normal", {{"x", x}});
    ops_->fill_normal(x, random, normal, first);
  }
  void add(const Tensor& y, const Tensor& a, const Tensor& b) override {
    note("add", {{"y", y}, {"a", a}, {"b", b}});
    ops_->add(y, a, b);
  }
  void scale(const Tensor& x, double factor) override {
    note("scale", {{"x", x}});
    ops_->scale(x, factor);
  }
  void embedding(const Tensor& y, const Tensor& tokens, const Tensor& table) override {
    note("embedding", {{"y", y}, {"tokens", tokens}, {"table", table}});
    ops_->embedding(y, tokens, table);
  }
  void embedding_backward(const Tensor& dtable, const Tensor& dy, const Tensor& tokens,
                          bool accumulate) override {
    note("embedding_backward", {{"dtable", dtable}, {"dy", dy}, {"tokens", tokens}});
    ops_->embedding_backward(dtable, dy, tokens, accumulate);
  }
  void rms_norm(const Tensor& y, const Tensor& rstd, const Tensor& x, const Tensor& w,
                double eps) override {
    note("rms_norm", {{"y", y}, {"rstd", rstd}, {"x", x}, {"w", w}});
    ops_->rms_norm(y, rstd, x, w, eps);
  }
  void rms_norm_backward(const Tensor& dx, const Tensor& dx_in, const Tensor& dw, const Tensor& dy,
                         const Tensor& x, const Tensor& w, const Tensor& rstd,
                         bool accumulate_dw) override {
    note(
        "rms_norm_backward",
        {{"dx", dx}, {"dx_in", dx_in}, {"dw", dw}, {"dy", dy}, {"x", x}, {"w", w}, {"rstd", rstd}});
    ops_->rms_norm_backward(dx, dx_in, dw, dy, x, w, rstd, accumulate_dw);
  }
  void rope(const Tensor& qkv, const Tensor& table, bool inverse) override {
    note(inverse ? "rope inverse" : "rope", {{"qkv", qkv}, {"table", table}});
    ops_->rope(qkv, table, inverse);
  }
  void swiglu(const Tensor& z, const Tensor& gate_up) override {
    note("swiglu", {{"z", z}, {"gate_up", gate_up}});
    ops_->swiglu(z, gate_up);
  }
  void swiglu_backward(const Tensor& d_gate_up, const Tensor& dz, const Tensor& gate_up) override {
    note("swiglu_backward", {{"d_gate_up", d_gate_up}, {"dz", dz}, {"gate_up", gate_up}});
    ops_->swiglu_backward(d_gate_up, dz, gate_up);
  }
  void causal_mask(const Tensor& scores) override {
    note("causal_mask", {{"scores", scores}});
    ops_->causal_mask(scores);
  }
  void softmax(const Tensor& y, const Tensor& x) override {
    note("softmax", {{"y", y}, {"x", x}});
    ops_->softmax(y, x);
  }
  void softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y) override {
    note("softmax_backward", {{"dx", dx}, {"dy", dy}, {"y", y}});
    ops_->softmax_backward(dx, dy, y);
  }
  void masked_softmax(const Tensor& y, const Tensor& x, const ScoreOptions& scores) override {
    note("masked_softmax", {{"y", y}, {"x", x}});
    ops_->masked_softmax(y, x, scores);
  }
  void masked_softmax_backward(const Tensor& dx, const Tensor& dy, const Tensor& y,
                               const ScoreOptions& scores) override {
    note("masked_softmax_backward", {{"dx", dx}, {"dy", dy}, {"y", y}});
    ops_->masked_softmax_backward(dx, dy, y, scores);
  }
  void flash_attention(const Heads& o, const Tensor& logsumexp, const Heads& q, const Heads& k,
                       const Heads& v, const ScoreOptions& scores) override {
    note("flash_attention", {{"o", o.tensor},
                             {"logsumexp", logsumexp},
                             {"q", q.tensor},
                             {"k", k.tensor},
                             {"v", v.tensor}});
    ops_->flash_attention(o, logsumexp, q, k, v, scores);
  }
  void flash_attention_backward(const Heads& dq, const Heads& dk, const Heads& dv, const Heads& d_o,
                                const Heads& q, const Heads& k, const Heads& v, const Heads& o,
                                const Tensor& logsumexp, const ScoreOptions& scores) override {
    note("flash_attention_backward", {{"dq", dq.tensor},
                                      {"dk", dk.tensor},
                                      {"dv", dv.tensor},
                                      {"d_o", d_o.tensor},
                                      {"logsumexp", logsumexp}});
    ops_->flash_attention_backward(dq, dk, dv, d_o, q, k, v, o, logsumexp, scores);
  }
  [[nodiscard]] FlashPlan flash_plan(const AttentionShape& shape) const override {
    return ops_->flash_plan(shape);
  }
  void cross_entropy(const Tensor& loss, const Tensor& logsumexp, const Tensor& logits,
                     const Tensor& targets) override {
    note("cross_entropy", {{"loss", loss}, {"logsumexp", logsumexp}, {"logits", logits}});
    ops_->cross_entropy(loss, logsumexp, logits, targets);
  }
  void cross_entropy_backward(const Tensor& dlogits, const Tensor& logits, const Tensor& logsumexp,
                              const Tensor& targets, const StepState& state) override {
    note("cross_entropy_backward",
         {{"dlogits", dlogits}, {"logits", logits}, {"logsumexp", logsumexp}});
    ops_->cross_entropy_backward(dlogits, logits, logsumexp, targets, state);
  }
  void weighted_sum(const Tensor& y, const Tensor& x, const Tensor& w) override {
    note("weighted_sum", {{"y", y}, {"x", x}, {"w", w}});
    ops_->weighted_sum(y, x, w);
  }
  void weighted_sum_backward(const Tensor& dx, const Tensor& dw, const Tensor& dy, const Tensor& x,
                             const Tensor& w) override {
    note("weighted_sum_backward", {{"dx", dx}, {"dw", dw}, {"dy", dy}, {"x", x}, {"w", w}});
    ops_->weighted_sum_backward(dx, dw, dy, x, w);
  }
  void sgd(const Tensor& parameters, const Tensor& gradients, double learning_rate) override {
    note("sgd", {{"parameters", parameters}, {"gradients", gradients}});
    ops_->sgd(parameters, gradients, learning_rate);
  }
  void check_finite(const StepState& state, const Tensor& x) override {
    note("check_finite", {{"x", x}});
    ops_->check_finite(state, x);
  }
  void begin_optimizer_step(const StepState& state, const AdamWConfig& adamw) override {
    ops_->begin_optimizer_step(state, adamw);
  }
  void begin_parameter_group(const StepState& state, const AdamWConfig& adamw) override {
    ops_->begin_parameter_group(state, adamw);
  }
  void adamw(const AdamWRange& range, const StepState& state, const AdamWConfig& adamw) override {
    note("adamw", {{"parameters", range.parameters},
                   {"gradients", range.gradients},
                   {"m", range.m},
                   {"v", range.v},
                   {"copy", range.copy}});
    ops_->adamw(range, state, adamw);
  }
  void end_optimizer_step(const StepState& state) override { ops_->end_optimizer_step(state); }

 private:
  void multiply(const Matrix& c, const Matrix& a, const Matrix& b, double alpha,
                double beta) override {
    note("matmul", {{"c", c.tensor}, {"a", a.tensor}, {"b", b.tensor}});
    ops_->matmul(c, a, b, alpha, beta);
  }
  void note(const char* op, std::initializer_list<OpLog::Named> operands) {
    log_.add(device().scopes(), op, operands);
  }

  std::unique_ptr<Ops> ops_;
  OpLog& log_;
};

}  // namespace

void OpLog::add(const ScopeStack& scopes, const char* op, std::initializer_list<Named> operands) {
  for (const auto& [name, tensor] : operands) {
    if (tensor.empty()) continue;
    operands_.push_back({.scope = scopes.path(), .op = op, .operand = name, .dtype = tensor.dtype});
  }
}

std::unique_ptr<Ops> make_logged_ops(Device& device, const OpsConfig& config, OpLog& log) {
  return std::make_unique<LoggedOps>(device, config, log);
}

}  // namespace paceline
