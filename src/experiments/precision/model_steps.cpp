// A training step of each studied model with a log of its tensors' dtypes.

#include <algorithm>
#include <memory>
#include <numeric>

#include "core/device.h"
#include "core/ops.h"
#include "experiments/precision/precision.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

namespace {

// Logs the operations of a device while it exists.
class OperationLogger final : public ScopeListener {
 public:
  OperationLogger(ScopeStack& scopes, DtypeLog& log) : scopes_(scopes), log_(log) {
    scopes_.set_listener(this);
  }
  ~OperationLogger() override { scopes_.set_listener(nullptr); }

  void entered(ScopeId scope, const OpWork* work) override {
    if (work == nullptr) return;
    for (std::size_t i = 0; i < work->dtypes.size(); ++i) {
      log_[fmt::format("{} {}", scopes_.paths()[scope].text, i)].insert(work->dtypes.at(i));
    }
  }
  void left() override {}

 private:
  ScopeStack& scopes_;
  DtypeLog& log_;
};

// Ends a step whose gradients are final.
void update(DtypeLog& log, ParameterStore& store, Ops& ops, const StepState& state) {
  AdamW optimizer(store, AdamWConfig{}, Shard::whole(store));
  optimizer.step(ops, state);
  store.device().synchronize();
  const std::vector<StoreArray> moments = optimizer.flat_state();
  log["parameters"].insert(store.parameters().dtype);
  log["gradients"].insert(store.gradients().dtype);
  log["AdamW's m"].insert(moments.at(0).values.dtype);
  log["AdamW's v"].insert(moments.at(1).values.dtype);
  log["loss"].insert(state.loss.dtype());
}

DtypeLog transformer_step(Device& device, Ops& ops, std::uint64_t seed) {
  constexpr std::int64_t batch = 2;
  ModelConfig config = model_of(ModelSize::tiny);
  config.context = 16;
  const Precision& p = ops.precision();
  Transformer model(device, config, p);
  initialise_weights(ops, model.store(), seed);
  const StepState state =
      StepState::create(device, batch, config.context, p.loss, p.loss_scaling, 1e-3);
  ops.fill(state.tokens, 1);
  ops.fill(state.targets, 1);
  const std::unique_ptr<ParallelStrategy> alone =
      make_strategy({.strategy = Strategy::none}, model.store(), ops, nullptr);
  DtypeLog log;
  alone->begin_step();
  {
    const OperationLogger logger(device.scopes(), log);
    model.forward(ops, state, *alone, {});
  }
  model.store().allocate_gradients();
  model.backward(ops, state, *alone);
  update(log, model.store(), ops, state);
  return log;
}

// The course's toy model: Linear(10, 10), ReLU, LayerNorm(10), Linear(10, 5), cross-entropy; dtypes
// follow torch.autocast. LayerNorm, here without bias, is RMSNorm of rows whose mean is 0. No
// language model here has ReLU or needs a row's mean, so the host computes them.
class ToyModel {
 public:
  ToyModel(Device& device, Ops& ops, std::uint64_t seed)
      : device_(device), ops_(ops), store_(device, p_, entries()) {
    const Random random(seed, 0);
    ops.fill_normal(store_.parameters(), random, TruncatedNormal(0.3, 1), 0);
    store_.refresh_copy(ops);
    ops.fill_normal(x_, random, TruncatedNormal(1, 3), store_.size());
    ops.fill(state_.targets, 1);
  }

  [[nodiscard]] DtypeLog step() {
    DtypeLog log;
    Saved saved1, saved2;
    std::vector<float> relu;
    const Array fc1_output = ops_.linear(saved1, x_, store_.parameter(fc1));
    const Array relu_output = on_host(fc1_output, fc1_output.dtype(), [&](auto& x) {
      for (float& v : x) v = std::max(v, 0.0F);
      relu = x;
    });
    const Array centered = on_host(relu_output, p_.statistics, subtract_row_means);
    const Array normed = allocate({rows, hidden}, p_.statistics);
    const Array rstd = allocate({rows}, p_.statistics);
    const Tensor weight = store_.parameter(ln).value;
    ops_.rms_norm(normed, rstd, centered, weight, 1e-5);
    const Array logits = ops_.linear(saved2, normed, store_.parameter(fc2));
    const Array logsumexp = allocate({rows}, p_.statistics);
    ops_.cross_entropy(state_.loss, logsumexp, logits, state_.targets);
    log["fc1 output"].insert(fc1_output.dtype());
    log["ReLU output"].insert(relu_output.dtype());
    log["LayerNorm statistics"].insert(rstd.dtype());
    log["LayerNorm output"].insert(normed.dtype());
    log["logits"].insert(logits.dtype());

    store_.allocate_gradients();
    ops_.cross_entropy_backward(logits, logits, logsumexp, state_.targets, state_);
    const Array d_normed = ops_.linear_backward(saved2, logits, store_.parameter(fc2));
    const Array d_centered = allocate({rows, hidden}, p_.statistics);
    ops_.rms_norm_backward(d_centered, {}, store_.parameter(ln).gradient, d_normed, centered,
                           weight, rstd, false);
    const Array d_fc1_output = on_host(d_centered, p_.compute, [&](auto& d) {
      subtract_row_means(d);
      for (std::size_t i = 0; i < d.size(); ++i) d[i] = relu[i] > 0 ? d[i] : 0;
    });
    (void)ops_.linear_backward(saved1, d_fc1_output, store_.parameter(fc1));
    update(log, store_, ops_, state_);
    return log;
  }

 private:
  static constexpr std::int64_t rows = 20, hidden = 10, outputs = 5;
  enum Entry : ParameterId { fc2, fc1, ln };  // in the order in which backward finishes gradients

  static std::vector<ParameterEntry> entries() {
    return {{.views = {{"fc2.weight", {outputs, hidden}}}, .shape = {outputs, hidden}},
            {.views = {{"fc1.weight", {hidden, hidden}}}, .shape = {hidden, hidden}},
            {.views = {{"ln.weight", {hidden}}}, .shape = {hidden}, .full_precision = true}};
  }
  [[nodiscard]] Array allocate(const Shape& shape, Dtype dtype) {
    return device_.allocate(shape, dtype, MemoryKind::activation);
  }
  // What f, which changes the elements of x, makes of x.  x [rows, hidden]
  template <class F>
  [[nodiscard]] Array on_host(const Array& x, Dtype dtype, F f) {
    std::vector<float> values = get_floats(device_, x);
    f(values);
    Array result = allocate(x.shape(), dtype);
    put_floats(device_, result, values);
    return result;
  }
  static void subtract_row_means(std::vector<float>& x) {
    for (auto row = x.begin(); row != x.end(); row += hidden) {
      const float mean = std::accumulate(row, row + hidden, 0.0F) / hidden;
      std::for_each(row, row + hidden, [mean](float& v) { v -= mean; });
    }
  }

  Device& device_;
  Ops& ops_;
  const Precision& p_ = ops_.precision();
  ParameterStore store_;
  StepState state_ = StepState::create(device_, rows, 1, p_.loss, p_.loss_scaling, 1e-3);
  Array x_ = allocate({rows, hidden}, p_.parameters);
};

}  // namespace

DtypeLog logged_step(Device& device, const PrecisionCase& c, std::uint64_t seed) {
  const std::unique_ptr<Ops> ops = device.make_ops({.precision = c.precision});
  if (c.model == StudiedModel::toy) return ToyModel(device, *ops, seed).step();
  return transformer_step(device, *ops, seed);
}

}  // namespace paceline
