#pragma once
// How every experiment measures a case: set up and rehearse, agree that all ranks have the memory,
// freeze the allocator, sample, gather, record.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/non_copyable.h"
#include "core/world.h"
#include "measure/progress.h"
#include "measure/sampler.h"
#include "record/case_record.h"

namespace paceline {

// The cost of a case by closed forms.
struct Prediction {
  double flops = 0;                 // per rank and repetition
  double bytes = 0;                 // least memory traffic, per rank and repetition
  double memory_bytes = 0;          // peak of the device
  double flush_bytes = 0;           // the buffer that flushes the cache, in addition to that peak
  std::string memory_formula = {};  // for memory_bytes, if it is short: "2 B T e = 8.00 MB"

  [[nodiscard]] double needed_bytes() const { return memory_bytes + flush_bytes; }
};

// One case on one rank. Its functions are called in this order; with --profile capture_again() and
// repetition() are called once more after add_to().
class CaseRun : NonCopyable {
 public:
  virtual ~CaseRun() = default;

  // Allocates everything that a repetition needs; a rehearsal finds out what that is. Not
  // collective. Throws OutOfMemory.
  virtual void set_up(Progress& progress) = 0;
  // Collective; called once every rank has that memory, before any collective of a repetition is
  // enqueued: the decisions that all ranks must make alike. Throws OutOfMemory.
  virtual void agree() {}
  // Collective; called next: runs each collective of a repetition once, since NCCL allocates at
  // first use. Throws OutOfMemory.
  virtual void connect() {}
  // Collective; the allocator is frozen. Throws OutOfMemory where a library lacks memory.
  virtual void start() {}
  // The phases that repetition() times; the last is the headline.
  [[nodiscard]] virtual std::vector<std::string> phases() const = 0;
  // The phases that are consecutive parts of the headline.
  [[nodiscard]] virtual std::vector<std::string> parts() const { return {}; }
  [[nodiscard]] virtual PhaseSeconds repetition() = 0;
  // The first phases of the last repetition, timed by events; empty where repetition() has returned
  // those times itself.
  [[nodiscard]] virtual PhaseSeconds event_seconds() const { return {}; }
  // The phases timed by the host's clock; all others are timed by events.
  [[nodiscard]] virtual std::vector<std::string> host_phases() const { return {}; }
  // Collective: captures the graphs of a repetition again, if it launches graphs. A profiler sees
  // the kernels only of graphs captured while it runs, and such graphs stay slower afterwards.
  virtual void capture_again() {}
  // Repetitions made before warm-up; they become the first warm-up samples.
  [[nodiscard]] virtual Repetitions cold_repetitions() const { return {}; }
  // Collective: adds tables and summary columns to the record, complete on rank 0. A status other
  // than ok need not be that of all ranks.
  virtual void add_to(CaseRecord& record) = 0;
  // Collective: adds to the record what only the measured repetitions tell: those from `begin` to
  // before `end`, where 0 is the first call of repetition().
  virtual void add_repetitions(CaseRecord& /*record*/, std::size_t /*begin*/, std::size_t /*end*/) {
  }
};

// Collective: measures a case on `device`, which has no memory in use. The prediction explains an
// oom row.
[[nodiscard]] CaseRecord measure_case(World& world, Device& device, CaseRun& run,
                                      const SamplerConfig& sampling, const Prediction& predicted,
                                      Progress& progress);

// --profile. Collective, called after a case was measured: profiles `steps` more repetitions, then
// times as many without the profiler. Adds tables and summary columns on rank 0. Throws
// StoppedError on every rank after a stop signal.
void add_profile(CaseRecord& record, World& world, Device& device, CaseRun& run, int steps,
                 Progress& progress);

// Collective: the record of a case that is skipped, if a rank has a reason to skip it.
[[nodiscard]] std::optional<CaseRecord> skipped_case(World& world, const std::string& reason);

// How long ranks wait for the slowest: at most --timeout, as for a collective; or without limit,
// where one rank has much more work than the others.
enum class WaitLimit : std::uint8_t { timeout, none };

// Collective: runs `work`, which allocates. Returns true if every rank had the memory. Otherwise
// the record's status is oom, it has the predicted peak (0: unknown), and on rank 0 its reason has
// the predicted bytes and, unless those alone refuse the case, the allocation that failed. Internal
// and collective errors of `work` are thrown at once, on the ranks that have them; other errors on
// every rank.
[[nodiscard]] bool fits_in_memory(World& world, CaseRecord& record, const Prediction& predicted,
                                  const std::function<void()>& work,
                                  WaitLimit wait_limit = WaitLimit::timeout);

// After a first step: repeats the step until one has allocated nothing new from the system, so that
// all memory of later steps is reserved. The first step proves nothing, even if it allocated
// nothing new: a block that it allocates late and keeps may be one that the next step needs early.
// Throws OutOfMemory, naming `what`, if the blocks of a step do not fit at the same time.
void warm_up_allocator(Device& device, const std::string& what, const std::function<void()>& step);

}  // namespace paceline
