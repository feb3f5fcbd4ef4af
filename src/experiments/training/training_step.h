#pragma once
// TrainingStep: one rank's model, step state, strategy and optimizer, and the step as a list of
// phases.

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
#include "model/weights_file.h"
#include "parallel/optimizer_in_backward.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

// A part of a step. launch() only enqueues work, so that the caller can time it, mark memory around
// it, or capture it into a graph.
struct StepPhase {
  // "forward", "backward", "communication_exposed", "optimizer"; empty: after the optimizer.
  std::string name;
  std::string memory;  // the ledger's phase to which its allocations are counted
  std::function<void()> launch;
  // This phase waits for work that the previous phase enqueued on other streams, so both are
  // captured into the same graph.
  bool joins = false;
};

using MakeStrategy =
    std::function<std::unique_ptr<ParallelStrategy>(ParameterStore& store, Ops& ops)>;

class TrainingStep {
 public:
  // Allocates parameters and step state. ranks: the number of ranks whose rows the loss is averaged
  // over. Throws OutOfMemory.
  TrainingStep(Device& device, const TrainingCase& c, int ranks, const StoreLayout& layout,
               const MakeStrategy& make_strategy);

  // The phases of a step in order; they refer to this object. communication_exposed: from the end
  // of backward until all gradients are reduced.
  [[nodiscard]] const std::vector<StepPhase>& phases() const { return phases_; }
  // Launches every phase in order.
  void launch() const;

  [[nodiscard]] Device& device() { return device_; }
  [[nodiscard]] Ops& ops() { return *ops_; }
  // Seconds to construct ops(), mostly handles of the device's libraries.
  [[nodiscard]] double library_seconds() const { return library_seconds_; }
  [[nodiscard]] Transformer& model() { return model_; }
  [[nodiscard]] ParallelStrategy& strategy() { return *strategy_; }
  [[nodiscard]] const StepState& state() const { return state_; }
  [[nodiscard]] bool updates_in_backward() const {
    return case_.mode == Mode::train_step && case_.optimizer == OptimizerOrder::in_backward;
  }
  // Updates in the backward of the current step.
  [[nodiscard]] std::vector<OptimizerInBackward::Update> updates() const {
    return in_backward_ ? in_backward_->updates() : std::vector<OptimizerInBackward::Update>{};
  }

  // Collective, between steps: appends all parameters, or all summed gradients, to `to`, unless
  // this rank keeps none (null). Blocking.
  void take_parameters(Snapshot* to) { strategy_->visit_parameters(adding_to(to)); }
  void take_gradients(Snapshot* to) { strategy_->visit_gradients(adding_to(to)); }
  // After the first step: issues the collectives of the two on a RehearsalCommunicator, which only
  // records them.
  void rehearse_snapshots();

  void load(const Batch& batch);
  // Replaces the default optimizer, AdamW over the strategy's shard.
  void optimize_with(std::unique_ptr<Optimizer> optimizer);
  // Restores the state before the first step: weights drawn at random or loaded, optimizer state 0.
  void reset();
  // A checksum of the file that reset() loaded; 0 for random weights.
  [[nodiscard]] std::uint64_t loaded() const { return loaded_; }

  // Before the first step, with updates in backward only: gradients share memory, so they are not
  // available after a step.
  void recycle_gradients();

  // Later steps copy their logits to this tensor, [B, T, V] float32; an empty tensor ends that.
  void capture_logits(const Tensor& logits) { logits_ = logits; }
  // The store's flat arrays, and the optimizer's if it has state for the whole store.
  [[nodiscard]] std::vector<StoreArray> arrays();
  [[nodiscard]] double loss();
  // Which result of the last step is not finite, the loss or this rank's gradients: "the loss is
  // nan". Empty if all are finite. Gradients are not checked with loss scaling, which skips steps
  // that overflow; if they are recycled, parameters are checked instead.
  [[nodiscard]] std::string divergence();

 private:
  void add_phases();
  [[nodiscard]] ParallelStrategy::Visit adding_to(Snapshot* to);

  Device& device_;
  TrainingCase case_;
  Precision precision_;
  double library_seconds_ = 0;
  std::unique_ptr<Ops> ops_;
  Transformer model_;
  StepState state_;
  std::unique_ptr<ParallelStrategy> strategy_;
  std::unique_ptr<Optimizer> optimizer_;
  std::optional<OptimizerInBackward> in_backward_;  // if updates_in_backward()
  bool recycled_ = false;
  std::uint64_t loaded_ = 0;
  Tensor logits_;
  std::vector<StepPhase> phases_;
};

}  // namespace paceline
