#pragma once
// TrainingStep: one rank's model with everything a step needs, and the step itself: forward,
// backward, optimizer, timed by phase. `model`, `ddp` and `zero` measure it.

#include <memory>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/ops.h"
#include "harness/options.h"
#include "measure/sampler.h"
#include "model/accounting.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/transformer.h"

namespace paceline {

// Ends of phases within one repetition.
class PhaseTimer {
 public:
  PhaseTimer(Device& device, Timing timing) : device_(device), timing_(timing) {}

  void begin();
  void end_phase();
  // Waits for the device; seconds of each phase, then of the whole by the host's clock.
  [[nodiscard]] PhaseSeconds finish();
  // On the compute stream: the begin, and each phase's end.
  [[nodiscard]] const std::vector<EventPtr>& events() const { return events_; }

 private:
  void mark();

  Device& device_;
  Timing timing_;
  std::vector<double> host_;  // Timing::phases: the host's clock after synchronising
  std::vector<EventPtr> events_;
  double began_ = 0;
};

// What the ledger said at one point of a step.
struct MemoryMark {
  std::string step;  // "first" (the rehearsal) or "steady"
  std::string mark;  // "after init", "before backward", "before optimizer", "after step"
  std::size_t bytes = 0;
  std::size_t peak_bytes = 0;  // so far in this step
  std::array<std::size_t, memory_kinds> by_kind{};
  std::string phase;  // that ends here: "forward", "backward", "optimizer"; or none
  std::size_t phase_peak_bytes = 0;
  std::array<std::size_t, memory_kinds> phase_peak_by_kind{};
};

class TrainingStep {
 public:
  // Allocates parameters and step state. Throws OutOfMemory.
  TrainingStep(Device& device, const StepShape& shape, const OpsConfig& ops,
               const ModelOptions& options, std::uint64_t seed, StoreLayout layout = {});

  // Of run(sync); the last is "step". communication_exposed: from backward's end until the averages
  // of the gradients are there.
  [[nodiscard]] std::vector<std::string> phases(const ParameterSync& sync) const;
  [[nodiscard]] Transformer& model() { return model_; }
  [[nodiscard]] const StepState& state() const { return state_; }
  [[nodiscard]] Ops& ops() { return *ops_; }
  // Of the last run.
  [[nodiscard]] const PhaseTimer& timer() const { return timer_; }

  void load(const Batch& batch) const;
  // With AdamW over so much of the store, instead of the whole.
  void optimize(Shard shard);
  void optimize_with(std::unique_ptr<Optimizer> optimizer) { optimizer_ = std::move(optimizer); }
  // Gradients are those of the mean over so many ranks' rows, to be added up.
  void mean_over(int ranks) { state_.ranks = ranks; }
  // As before the first step: weights drawn (or loaded), optimizer state 0.
  void reset();
  // One repetition. Throws OutOfMemory before the device is frozen.
  [[nodiscard]] PhaseSeconds run(ParameterSync& sync);
  // The first step from cold, after which everything is allocated; then reset(). Throws OutOfMemory
  // when what a step needs does not fit all at once.
  [[nodiscard]] PhaseSeconds rehearse(ParameterSync& sync);

  // The next runs copy their logits there, [B, T, V] float32; an empty tensor ends that.
  void capture_logits(const Tensor& logits) { logits_ = logits; }
  // The next run notes what the ledger says, under this name, from the peak of here on.
  void mark_memory(const std::string& step);
  [[nodiscard]] const std::vector<MemoryMark>& marks() const { return marks_; }
  // In use before the rehearsal's backward: what forward has kept for it, among others.
  [[nodiscard]] const std::vector<MemoryBlock>& kept() const { return kept_; }
  // The store's, with the optimizer's state where that is whole.
  [[nodiscard]] std::vector<StoreArray> arrays();
  [[nodiscard]] double loss();
  // What of the last run is not finite, the loss or the shard's gradients: "the loss is nan"; empty
  // where all is finite. Gradients are left out where the optimizer skips steps that overflow.
  [[nodiscard]] std::string divergence(const Shard& shard);

 private:
  void mark(const std::string& name, const std::string& phase = "");

  Device& device_;
  StepShape shape_;
  ModelOptions options_;
  std::uint64_t seed_;
  std::unique_ptr<Ops> ops_;
  Transformer model_;
  StepState state_;
  std::unique_ptr<Optimizer> optimizer_;
  PhaseTimer timer_;
  Tensor logits_;
  std::string marking_;
  std::vector<MemoryMark> marks_;
  std::vector<MemoryBlock> kept_;
};

}  // namespace paceline
