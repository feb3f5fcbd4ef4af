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

    // Backward did it itself, as a part of the gradient's product: there are no events.
    [[nodiscard]] bool fused() const { return end == nullptr; }
  };

  explicit OptimizerInBackward(Ops& ops) : ops_(ops) {}

  // Before backward: begins the optimizer's step.
  void begin(Optimizer& optimizer, const StepState& state);
  // The update of the range, which backward may do itself before update() is called; null if the
  // optimizer has none.
  [[nodiscard]] WeightUpdate* offer(const Optimizer& optimizer, const StepState& state,
                                    const StoreRange& range);
  // Updates the range. Its gradients are final, and its parameters are no longer read in this step,
  // after the work enqueued so far on `after`.
  void update(Optimizer& optimizer, const StepState& state, const StoreRange& range, Stream& after);
  // Later work on `stream` starts after the update of the range that begins at `offset` and after
  // all earlier ones; updates that backward did precede it in any case. Throws InternalError if no
  // such range was updated.
  void wait_for_update(Stream& stream, std::int64_t offset) const;
  // After backward: updates the remaining entries and parts of entries. The compute stream waits
  // for all updates.
  void finish(Optimizer& optimizer, const StepState& state,
              const std::vector<ParameterEntry>& entries);

  // The updates of this step.
  [[nodiscard]] const std::vector<Update>& updates() const { return updates_; }

 private:
  Ops& ops_;
  std::vector<Update> updates_;
  std::map<std::int64_t, WeightUpdate> offered_;  // by offset
};

}  // namespace paceline
