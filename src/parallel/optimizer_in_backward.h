#pragma once
// OptimizerInBackward: updates each range of parameters as soon as its gradients are final, on a
// separate stream, so that the memory-bound updates overlap with backward's matrix products.

#include <map>
#include <vector>

#include "core/ops.h"
#include "core/step_state.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"

namespace paceline {

class OptimizerInBackward : NonCopyable {
 public:
  // An update, with its begin and end on the optimizer's stream.
  struct Update {
    StoreRange range;
    EventPtr begin;
    EventPtr end;

    // The product that computed the gradient took the update: there are no events.
    [[nodiscard]] bool fused() const { return end == nullptr; }
  };

  OptimizerInBackward(Ops& ops, Optimizer& optimizer, const StepState& state)
      : ops_(ops), optimizer_(optimizer), state_(state) {}

  // From now on, products may take the updates of their weights (WeightUpdate). Must not be called
  // if gradients are exchanged: they are final only after that.
  void allow_fusion() { allows_fusion_ = true; }

  // Before backward: begins the optimizer's step.
  void begin();
  // The update of the range, for the product that computes its gradients; null without
  // allow_fusion(), or if the optimizer cannot express it as one WeightUpdate.
  [[nodiscard]] WeightUpdate* offer(const StoreRange& range);
  // Updates the range, unless a product took the update. Its gradients are final, and its
  // parameters are no longer read in this step, after the work enqueued so far on `after`.
  void update(const StoreRange& range, Stream& after);
  // Later work on `stream`, which overwrites the range's gradients, waits for its update and all
  // earlier ones. An update that a product took needs no wait: its gradients were never stored.
  // Throws InternalError if the range was not updated.
  void wait_for_update(Stream& stream, const StoreRange& range) const;
  // After backward: updates the remaining entries and parts of entries. The compute stream waits
  // for all updates.
  void finish(const std::vector<ParameterEntry>& entries);

  // The updates of this step.
  [[nodiscard]] const std::vector<Update>& updates() const { return updates_; }

 private:
  Ops& ops_;
  Optimizer& optimizer_;
  const StepState& state_;
  bool allows_fusion_ = false;
  std::vector<Update> updates_;
  std::map<std::int64_t, WeightUpdate> offered_;  // by offset
};

}  // namespace paceline
