#pragma once
// StepRunner: runs a training step, launched phase by phase or replayed from CUDA graphs, times
// each phase, and records the memory in use between phases.

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
  std::size_t peak_bytes = 0;  // since the step began
  BytesByKind by_kind{};
  std::size_t phase_peak_bytes = 0;
  BytesByKind phase_peak_by_kind{};
};

// The ledger's numbers at one point of a step.
struct MemoryMark : MemoryNumbers {
  std::string step;   // "first" (the rehearsal) or "steady"
  std::string mark;   // "after init", "before backward", "before optimizer", "after step"
  std::string phase;  // the phase that ends here: "forward", "backward", "optimizer"; or empty
};

// seconds: of the phases forward, backward, communication_exposed, ..., step. Adds the compute
// stream's waits for collectives to communication_exposed, and inserts communication_total, the sum
// of the collectives' times, before step.
void add_communication_times(PhaseSeconds& seconds, const std::vector<Exchange>& exchanges,
                             const std::vector<Wait>& waits);

// Seconds that the compute stream waited for collectives, before and after the end of forward.
struct WaitSeconds {
  double forward = 0;
  double backward = 0;
};
[[nodiscard]] WaitSeconds wait_seconds(const std::vector<Wait>& waits, const Event& forward_end);

// A device synchronisation by the host.
struct HostWait {
  std::size_t phases;  // phases that had ended by then
  double seconds;      // host time since the previous one
};

// Corrects phases timed by events so that they add up to host time: of the phases that ended
// between two waits, the first gets the host's seconds minus those of the other phases.
void add_host_waits(PhaseSeconds& seconds, const std::vector<HostWait>& waits);

class StepRunner {
 public:
  // The step must outlive it.
  StepRunner(TrainingStep& step, Timing timing) : step_(step), timing_(timing) {}

  // The names of run()'s times: the phases; communication_total and optimizer_total if they apply;
  // step.
  [[nodiscard]] std::vector<std::string> phases() const;
  // Runs one step and synchronises the device. Waits of the compute stream for gathered parameters
  // count as exposed communication. Throws OutOfMemory before the device is frozen.
  [[nodiscard]] PhaseSeconds run();
  // Runs the first (cold) step, and repeats it until the allocator makes no new allocation. Throws
  // OutOfMemory if the memory of a step does not fit.
  [[nodiscard]] Repetitions rehearse();

  // Captures graphs for replay(): one of the whole step; with Timing::phases one per phase,
  // together with the phases that join it. Executes nothing. The device must be frozen after a
  // rehearsal. The graphs' temporary memory counts as free after this call, so allocations that
  // outlive a step must be made before.
  void capture();
  [[nodiscard]] bool captured() const { return !graphs_.empty(); }
  // Runs one step by launching the graphs.
  [[nodiscard]] PhaseSeconds replay();
  // The number of graph nodes of a step. Without graphs, a step is captured for counting only.
  [[nodiscard]] GraphNodes nodes() const;
  // The median host time to launch a step, over all steps since the rehearsal; with graphs, over
  // the replays.
  [[nodiscard]] double launch_seconds() const { return summarize(launches_).median; }

  // Resets the ledger's peak. The next run() or capture() records marks with this step name.
  void mark_memory(const std::string& step);
  [[nodiscard]] const std::vector<MemoryMark>& marks() const { return marks_; }
  // All blocks in use at the end of the rehearsal's forward, including what forward keeps.
  [[nodiscard]] const std::vector<Allocation>& kept() const { return kept_; }

  // Medians over the same steps as launch_seconds().
  [[nodiscard]] WaitSeconds waited() const;
  struct Recorded {
    std::vector<EventPtr> phases;  // on the compute stream: the start, then each phase's end
    std::vector<Exchange> exchanges;
    std::vector<Wait> waits;
    std::vector<OptimizerInBackward::Update> updates;
  };
  // Of the last run or replay.
  [[nodiscard]] const Recorded& last() const { return replayed_ ? captured_ : run_; }
  // Seconds of each phase of the last run or replay, between its events.
  [[nodiscard]] std::vector<double> event_seconds() const;

 private:
  // Launches a phase, records an event at its end, and marks the memory in use.
  void launch(const StepPhase& phase, Recorded& recorded);
  [[nodiscard]] EventPtr record_time();
  void begin_measuring();
  // Calls launch() and adds its host time to launch_.
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
  double launch_ = 0;  // host seconds that launches of the current step took
  std::vector<double> launches_;
  std::vector<double> waited_in_forward_;
  std::vector<double> waited_in_backward_;
  Recorded run_;
  Recorded captured_;
  bool replayed_ = false;
  struct PhaseGraph {
    std::unique_ptr<Graph> graph;
    std::size_t phases;  // phases of the step that have ended after this graph
  };
  std::vector<PhaseGraph> graphs_;
  std::string marking_;
  std::vector<MemoryMark> marks_;
  std::vector<Allocation> kept_;
};

}  // namespace paceline
