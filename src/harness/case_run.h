#pragma once
// How every experiment measures a case: set up and rehearse, agree that all ranks have the memory,
// freeze the allocator, sample, gather, record.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "harness/prediction.h"
#include "measure/progress.h"
#include "measure/sampler.h"
#include "record/case_record.h"

namespace paceline {

// One case on one rank. Its functions are called in this order; with --profile capture_again() and
// repetition() are called once more after add_to().
class CaseRun : NonCopyable {
 public:
  virtual ~CaseRun() = default;

  // Allocates all that a repetition needs, which a rehearsal shows. No rank waits for another.
  // Throws OutOfMemory.
  virtual void set_up(Progress& progress) = 0;
  // Collective, when every rank has that memory, and before any collective of a repetition is
  // enqueued: what ranks must do alike. Throws OutOfMemory.
  virtual void agree() {}
  // Collective, after that: each collective of a repetition once, since NCCL
  // allocates at first use. Throws OutOfMemory.
  virtual void connect() {}
  // Collective, when the allocator is frozen.
  virtual void start() {}
  // Of repetition(); the last is the headline.
  [[nodiscard]] virtual std::vector<std::string> phases() const = 0;
  // Those of them that follow each other within the headline: its parts.
  [[nodiscard]] virtual std::vector<std::string> parts() const { return {}; }
  [[nodiscard]] virtual PhaseSeconds repetition() = 0;
  // Of the last repetition: its first phases as events time them; empty: as it said itself.
  [[nodiscard]] virtual PhaseSeconds event_seconds() const { return {}; }
  // The phases that the host's clock times; the others are timed by events.
  [[nodiscard]] virtual std::vector<std::string> host_phases() const { return {}; }
  // Collective: captures anew the graphs that a repetition launches, if it does. A profiler sees
  // into graphs that are captured while it runs, which run slower ever after.
  virtual void capture_again() {}
  // Repetitions from before warm-up, which come first among the warm-up samples.
  [[nodiscard]] virtual Repetitions cold_repetitions() const { return {}; }
  // Collective: from what the ranks measured to tables and summary, whole on rank 0. A status that
  // is not ok may be one rank's own.
  virtual void add_to(CaseRecord& record) = 0;
};

// How many repetitions warm up, of each case that one run serves.
struct Warmups {
  std::vector<int> counts;
  // The cold repetitions are among those counted: with 0 the first of them is measured.
  bool from_cold = false;
};

// Collective: measures a case on `device`, of which nothing is in use. The prediction is for the
// reason of an oom row.
[[nodiscard]] CaseRecord measure_case(World& world, Device& device, CaseRun& run,
                                      const SamplerConfig& sampling, const Prediction& predicted,
                                      Progress& progress);
// The same for several cases that differ in warm-up alone: they are parts of one series of
// repetitions.
[[nodiscard]] std::vector<CaseRecord> measure_cases(World& world, Device& device, CaseRun& run,
                                                    const SamplerConfig& sampling,
                                                    const Warmups& warmups,
                                                    const Prediction& predicted,
                                                    Progress& progress);

// How long ranks wait for the slowest one: until the watchdog's timeout, or without limit where one
// rank has much more to do.
enum class WaitLimit : std::uint8_t { timeout, none };

// Collective: runs `work`, which allocates. True when every rank had the memory; otherwise the
// record's status is oom and, on rank 0, its reason names the bytes predicted (0: not known) and
// what was refused. Throws, on every rank, an Error that `work` threw on any.
[[nodiscard]] bool fits_in_memory(World& world, CaseRecord& record, const Prediction& predicted,
                                  const std::function<void()>& work,
                                  WaitLimit wait_limit = WaitLimit::timeout);

// After a first step: repeats it until one has allocated nothing new from the system, so that
// another like it finds all its memory reserved. The first step shows nothing, even where it
// allocated nothing new: what it needs late, and keeps, may take the block of what the next one
// needs early. Throws OutOfMemory, naming `what`, when a step's blocks do not fit all at once.
void warm_up_allocator(Device& device, const std::string& what, const std::function<void()>& step);

}  // namespace paceline
