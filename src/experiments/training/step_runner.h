#pragma once
// StepRunner: runs a training step, launched phase by phase or captured into graphs, times each
// phase, and marks what is in memory.

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "experiments/training/training_step.h"
#include "measure/sampler.h"
#include "measure/statistics.h"

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
// what the compute stream waited for collectives; communication_total, the collectives' own time,
// comes before step.
void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<Wait>& waits);

// How long the compute stream waited for collectives before and after the end of forward, in s.
struct WaitSeconds {
  double forward = 0;
  double backward = 0;
};
[[nodiscard]] WaitSeconds wait_seconds(const std::vector<Wait>& waits, const Event& forward_end);

// A wait of the host for the device: the phases that had ended by then, and the time since the
// previous wait.
struct HostWait {
  std::size_t phases;
  double seconds;
};

// Corrects phases timed by events, so that they add up to what passed on the host: of the phases
// that ended with one wait, the first gets the wait's seconds less the other phases'.
void add_host_waits(PhaseSeconds& seconds, const std::vector<HostWait>& waits);

class StepRunner {
 public:
  // The step must outlive it.
  StepRunner(TrainingStep& step, Timing timing) : step_(step), timing_(timing) {}

  // Of run(): the phases; the collectives' own time, and that of updates in backward, where there
  // are any; the whole step.
  [[nodiscard]] std::vector<std::string> phases() const;
  // One step; waits for the device. What the compute stream waited for parameters counts as exposed
  // communication. Throws OutOfMemory before the device is frozen.
  [[nodiscard]] PhaseSeconds run();
  // The first step from cold, and repeats of it until everything is allocated. Throws OutOfMemory
  // when what a step needs does not fit all at once.
  [[nodiscard]] Repetitions rehearse();

  // For replay(): the whole step as one graph; with Timing::phases, as one for each phase, with
  // those that join it. Nothing runs. The device must be frozen after a rehearsal. What a replay
  // uses of the device's memory counts as free: allocations that outlive a step belong before this.
  void capture();
  [[nodiscard]] bool captured() const { return !graphs_.empty(); }
  // One step from the graphs.
  [[nodiscard]] PhaseSeconds replay();
  // Of the graphs; without any, of one that is captured for this, and not launched.
  [[nodiscard]] GraphNodes nodes() const;
  // The host's time to launch a step: the median over those since the rehearsal, with graphs over
  // the replays.
  [[nodiscard]] double launch_seconds() const { return summarize(launches_).median; }

  // The next run or capture notes what the ledger says, under this name, from the peak of here on.
  void mark_memory(const std::string& step);
  [[nodiscard]] const std::vector<MemoryMark>& marks() const { return marks_; }
  // In use before the rehearsal's backward: what forward has kept for it, among others.
  [[nodiscard]] const std::vector<MemoryBlock>& kept() const { return kept_; }

  // The medians over the same steps.
  [[nodiscard]] WaitSeconds waited() const;
  // Of the last run or replay, on the compute stream: the begin, and each phase's end.
  [[nodiscard]] const std::vector<EventPtr>& events() const { return last().phases; }
  // Of the last run or replay: the phases' times between those.
  [[nodiscard]] std::vector<double> event_seconds() const;
  [[nodiscard]] const std::vector<Exchange>& exchanges() const { return last().exchanges; }
  [[nodiscard]] const std::vector<Wait>& waits() const { return last().waits; }
  [[nodiscard]] const std::vector<OptimizerInBackward::Update>& updates() const {
    return last().updates;
  }

 private:
  struct Recorded {
    std::vector<EventPtr> phases;
    std::vector<Exchange> exchanges;
    std::vector<Wait> waits;
    std::vector<OptimizerInBackward::Update> updates;
  };

  [[nodiscard]] const Recorded& last() const { return replayed_ ? captured_ : run_; }
  // Launches a phase, records its end, and notes what the ledger says then.
  void launch(const StepPhase& phase, Recorded& recorded);
  [[nodiscard]] EventPtr record_time();
  void begin_measuring();
  // Calls launch() and adds its time to that of the step's launches.
  template <class Launch>
  void launch_timed(const Launch& launch);
  void forget_launches();
  void wait_for_phases(std::size_t ended);
  [[nodiscard]] PhaseSeconds end_measuring();
  void mark(std::string_view name, std::string_view phase = {});

  TrainingStep& step_;
  Timing timing_;
  double began_ = 0;
  std::vector<HostWait> host_waits_;
  double launch_ = 0;  // of the step at hand
  std::vector<double> launches_;
  std::vector<double> waited_in_forward_;
  std::vector<double> waited_in_backward_;
  Recorded run_;
  Recorded captured_;
  bool replayed_ = false;
  struct PhaseGraph {
    std::unique_ptr<Graph> graph;
    std::size_t phases;  // that have ended with it, of the step
  };
  std::vector<PhaseGraph> graphs_;
  std::string marking_;
  std::vector<MemoryMark> marks_;
  std::vector<MemoryBlock> kept_;
};

}  // namespace paceline
