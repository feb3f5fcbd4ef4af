#pragma once
// OptimizerInBackward: updates each range of parameters as soon as its gradients are final, on a
// stream of its own, so that updates, which move memory, run beside backward's products.

#include <vector>

#include "core/ops.h"
#include "core/step_state.h"
#include "model/optimizer.h"
#include "model/parameter_store.h"

namespace paceline {

class OptimizerInBackward : NonCopyable {
 public:
  // Where an update begins and ends on the optimizer's stream.
  struct Update {
    StoreRange range;
    EventPtr begin;
    EventPtr end;
  };

  explicit OptimizerInBackward(Ops& ops) : ops_(ops) {}

  // Before backward: the optimizer's step begins.
  void begin(Optimizer& optimizer, const StepState& state);
  // The range's gradients are final, and its parameters not read again in this step, after the work
  // of `after` so far.
  void update(Optimizer& optimizer, const StepState& state, const StoreRange& range, Stream& after);
  // Later work of a stream starts after the update of a range that begins here. Throws
  // InternalError where there was none.
  void let_wait(Stream& stream, std::int64_t offset) const;
  // After backward: the updates of entries, or parts of them, that are left. The compute stream
  // waits for all.
  void finish(Optimizer& optimizer, const StepState& state,
              const std::vector<ParameterEntry>& entries);

  // Of the step at hand.
  [[nodiscard]] const std::vector<Update>& updates() const { return updates_; }

 private:
  Ops& ops_;
  std::vector<Update> updates_;
};

}  // namespace paceline
