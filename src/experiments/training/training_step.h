#pragma once
// TrainingStep: one rank's model with everything a step needs, and the step as a list of phases.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "core/step_state.h"
#include "experiments/training/training_case.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "parallel/optimizer_in_backward.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

// A part of a step. launch() enqueues its work and does nothing else, so that the caller may time
// it, mark memory around it, or capture it into a graph.
struct StepPhase {
  std::string name;    // "forward", "backward", "communication_exposed", "optimizer"; empty: what
                       // follows the optimizer
  std::string memory;  // the phase that the memory ledger counts it to
  std::function<void()> launch;
  bool joins = false;  // work of the phase before on other streams ends here: they are captured
                       // together
};

using MakeStrategy =
    std::function<std::unique_ptr<ParallelStrategy>(ParameterStore& store, Ops& ops)>;

class TrainingStep {
 public:
  // Allocates parameters and step state. ranks: of whose rows the gradients are the mean. Throws
  // OutOfMemory.
  TrainingStep(Device& device, const TrainingCase& c, int ranks, const StoreLayout& layout,
               const MakeStrategy& make_strategy);

  // Of one step in this order; communication_exposed: from backward's end until the sums of the
  // gradients are there. They refer to this object.
  [[nodiscard]] const std::vector<StepPhase>& phases() const { return phases_; }
  // Every phase, one after the other.
  void launch() const;

  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Ops& ops() { return *ops_; }
  // What it took to make them: the handles of the device's libraries.
  [[nodiscard]] double library_seconds() const { return library_seconds_; }
  [[nodiscard]] Transformer& model() { return model_; }
  [[nodiscard]] ParallelStrategy& strategy() { return *strategy_; }
  [[nodiscard]] const StepState& state() const { return state_; }
  [[nodiscard]] bool updates_in_backward() const {
    return case_.mode == Mode::train_step && case_.optimizer == OptimizerOrder::in_backward;
  }
  // Of the step at hand.
  [[nodiscard]] const std::vector<OptimizerInBackward::Update>& updates() const {
    return in_backward_.updates();
  }

  // Their collectives, over a communicator that notes them. After the first step.
  void rehearse_visits();

  void load(const Batch& batch);
  // Instead of AdamW over the strategy's shard.
  void optimize_with(std::unique_ptr<Optimizer> optimizer) { optimizer_ = std::move(optimizer); }
  // As before the first step: weights drawn (or loaded), optimizer state 0.
  void reset();
  // A checksum of the file that reset() has loaded; 0 where weights are drawn.
  [[nodiscard]] std::uint64_t loaded() const { return loaded_; }

  // Before the first step, of one that updates in backward: gradients share memory. They are then
  // not there after a step.
  void recycle_gradients();

  // The next steps copy their logits there, [B, T, V] float32; an empty tensor ends that.
  void capture_logits(const Tensor& logits) { logits_ = logits; }
  // The store's, with the optimizer's state where that is whole.
  [[nodiscard]] std::vector<StoreArray> arrays();
  [[nodiscard]] double loss();
  // What of the last step is not finite, the loss or the shard's gradients: "the loss is nan";
  // empty where all is finite. Gradients are left out where the optimizer skips steps that
  // overflow; where they are recycled, parameters are looked at in their place.
  [[nodiscard]] std::string divergence();

 private:
  void add_phases();

  Device& device_;
  TrainingCase case_;
  Precision precision_;
  double library_seconds_ = 0;
  std::unique_ptr<Ops> ops_;
  Transformer model_;
  StepState state_;
  std::unique_ptr<ParallelStrategy> strategy_;
  std::unique_ptr<Optimizer> optimizer_;
  OptimizerInBackward in_backward_;
  bool recycled_ = false;
  std::uint64_t loaded_ = 0;
  Tensor logits_;
  std::vector<StepPhase> phases_;
};

}  // namespace paceline
