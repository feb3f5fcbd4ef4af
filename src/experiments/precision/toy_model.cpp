#include "experiments/precision/toy_model.h"

#include "model/optimizer.h"
#include "model/parameter_store.h"

namespace paceline {

namespace {

constexpr std::int64_t toy_rows = 20;  // R
constexpr std::int64_t hidden = 10;    // D
constexpr std::int64_t outputs = 5;    // O
constexpr double layer_norm_eps = 1e-5;

// In the order in which backward finishes their gradients; LayerNorm's entries are full_precision.
enum Entry : ParameterId { fc2, fc1, ln_weight, ln_bias };

std::vector<ParameterEntry> entries() {
  const auto entry = [](const char* name, const Shape& shape, bool full_precision) {
    return ParameterEntry{
        .views = {{name, shape}}, .shape = shape, .full_precision = full_precision, .unit = "toy"};
  };
  return {entry("fc2.weight", {outputs, hidden}, false),
          entry("fc1.weight", {hidden, hidden}, false), entry("ln.weight", {hidden}, true),
          entry("ln.bias", {hidden}, true)};
}

class ToyStep {
 public:
  ToyStep(Device& device, Ops& ops, ToyOps& toys, std::uint64_t seed)
      : device_(device), ops_(ops), toys_(toys), store_(device, ops.precision(), entries()) {
    const Random random(seed, 0);
    ops.fill_normal(store_.parameters(), random, TruncatedNormal(0.3, 1), 0);
    store_.refresh_copy(ops);
    ops.fill_normal(x_, random, TruncatedNormal(1, 3), store_.size());
    ops.fill_normal(target_, random, TruncatedNormal(1, 3), 2 * store_.size());
  }

  void forward() {
    const Scope pass(device_.scopes(), "forward");
    {
      const Scope scope(device_.scopes(), "fc1");
      hidden_ = ops_.linear(saved1_, x_, store_.parameter(fc1));
    }
    {
      const Scope scope(device_.scopes(), "relu");
      toys_.relu(hidden_, hidden_);
    }
    {
      const Scope scope(device_.scopes(), "ln");
      toys_.layer_norm(normed_, mean_, rstd_, hidden_, store_.parameter(ln_weight).value,
                       store_.parameter(ln_bias).value, layer_norm_eps);
    }
    Array logits;  // [R, O]
    {
      const Scope scope(device_.scopes(), "fc2");
      logits = ops_.linear(saved2_, normed_, store_.parameter(fc2));
    }
    const Scope scope(device_.scopes(), "loss");
    ops_.cast(wide_logits_, logits);
    toys_.squared_error(state_.loss, wide_logits_, target_, Reduction::mean);
  }

  void backward() {
    const Scope pass(device_.scopes(), "backward");
    store_.allocate_gradients();
    const Array d_logits = allocate({toy_rows, outputs}, p_.loss);
    toys_.squared_error_backward(d_logits, wide_logits_, target_, Reduction::mean);
    const Array d_normed = ops_.linear_backward(saved2_, d_logits, store_.parameter(fc2));
    const Array d_hidden = allocate({toy_rows, hidden}, hidden_.dtype());
    toys_.layer_norm_backward(d_hidden, store_.parameter(ln_weight).gradient,
                              store_.parameter(ln_bias).gradient, d_normed, hidden_,
                              store_.parameter(ln_weight).value, mean_, rstd_, false);
    toys_.relu_backward(d_hidden, d_hidden, hidden_);
    (void)ops_.linear_backward(saved1_, d_hidden, store_.parameter(fc1));
  }

  void update() {
    const Scope pass(device_.scopes(), "optimizer");
    AdamW(store_, AdamWConfig{}, Shard::whole(store_)).step(ops_, state_);
    device_.synchronize();
  }

 private:
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype) {
    return device_.allocate(shape, dtype, MemoryKind::activation);
  }

  Device& device_;
  Ops& ops_;
  ToyOps& toys_;
  const Precision& p_ = ops_.precision();
  ParameterStore store_;
  StepState state_ = StepState::create(device_, 1, 1, p_.loss, p_.loss_scaling, 1e-3);
  Array x_ = allocate({toy_rows, hidden}, p_.parameters);
  Array target_ = allocate({toy_rows, outputs}, p_.loss);
  Array hidden_;  // [R, D]
  Array normed_ = allocate({toy_rows, hidden}, p_.statistics);
  Array mean_ = allocate({toy_rows}, p_.statistics);
  Array rstd_ = allocate({toy_rows}, p_.statistics);
  Array wide_logits_ = allocate({toy_rows, outputs}, p_.loss);
  Saved saved1_, saved2_;
};

}  // namespace

void run_toy_step(Device& device, Ops& ops, ToyOps& toys, std::uint64_t seed) {
  ToyStep step(device, ops, toys, seed);
  step.forward();
  step.backward();
  step.update();
}

}  // namespace paceline
