#pragma once
// StepRunner: runs a training step phase by phase, times each, and marks what is in memory.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "experiments/training/training_step.h"
#include "measure/sampler.h"

namespace paceline {

using BytesByKind = std::array<std::size_t, memory_kinds>;

struct MemoryNumbers {
  std::size_t bytes = 0;
  std::size_t peak_bytes = 0;  // so far in this step
  BytesByKind by_kind{};
  std::size_t phase_peak_bytes = 0;
  BytesByKind phase_peak_by_kind{};
};

// What the ledger said at one point of a step.
struct MemoryMark : MemoryNumbers {
  std::string step;   // "first" (the rehearsal) or "steady"
  std::string mark;   // "after init", "before backward", "before optimizer", "after step"
  std::string phase;  // that ends here: "forward", "backward", "optimizer"; or none
};

// Of the phases forward, backward, communication_exposed, ..., step: communication_exposed grows by
// what the compute stream waited for parameters; communication_total, the collectives' own time,
// comes before step.
void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<ParameterWait>& waits);

class StepRunner {
 public:
  // The step must outlive it.
  StepRunner(TrainingStep& step, Timing timing) : step_(step), timing_(timing) {}

  // Of run(): the phases, the collectives' own time where there are any, the whole step.
  [[nodiscard]] std::vector<std::string> phases() const;
  // One step; waits for the device. What the compute stream waited for parameters counts as exposed
  // communication. Throws OutOfMemory before the device is frozen.
  [[nodiscard]] PhaseSeconds run();
  // The first step from cold, after which everything is allocated. Throws OutOfMemory when what a
  // step needs does not fit all at once.
  [[nodiscard]] PhaseSeconds rehearse();

  // The next run notes what the ledger says, under this name, from the peak of here on.
  void mark_memory(const std::string& step);
  [[nodiscard]] const std::vector<MemoryMark>& marks() const { return marks_; }
  // In use before the rehearsal's backward: what forward has kept for it, among others.
  [[nodiscard]] const std::vector<MemoryBlock>& kept() const { return kept_; }

  // Of the last run, on the compute stream: the begin, and each phase's end.
  [[nodiscard]] const std::vector<EventPtr>& events() const { return events_; }

 private:
  void end_phase();
  void mark(std::string_view name, std::string_view phase = {});

  TrainingStep& step_;
  Timing timing_;
  std::vector<double> host_;  // Timing::phases: the host's clock after synchronising
  std::vector<EventPtr> events_;
  std::string marking_;
  std::vector<MemoryMark> marks_;
  std::vector<MemoryBlock> kept_;
};

}  // namespace paceline
