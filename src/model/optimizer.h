#pragma once
// Optimizer: what turns gradients into new weights at the end of a step.

#include "core/ops.h"
#include "core/step_state.h"
#include "model/parameter_store.h"

namespace paceline {

class Optimizer {
 public:
  Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  // Allocates its state at the first call. Throws OutOfMemory.
  virtual void step(Ops& ops, const StepState& state) = 0;
};

// torch.optim.AdamW over the whole store; with loss scaling, a step whose gradients are not all
// finite changes nothing but the loss scale.
class AdamW final : public Optimizer {
 public:
  AdamW(ParameterStore& store, const AdamWConfig& config) : store_(store), config_(config) {}
  void step(Ops& ops, const StepState& state) override;

 private:
  ParameterStore& store_;
  AdamWConfig config_;
};

// torch.optim.SGD without momentum, over the whole store: p -= learning_rate g.
class Sgd final : public Optimizer {
 public:
  Sgd(ParameterStore& store, double learning_rate) : store_(store), learning_rate_(learning_rate) {}
  void step(Ops& ops, const StepState& state) override;

 private:
  ParameterStore& store_;
  double learning_rate_;
};

}  // namespace paceline
