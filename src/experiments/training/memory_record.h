#pragma once
// The memory measurements of one rank, and the tables made from them.

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "experiments/training/training_case.h"
#include "model/parameter_store.h"
#include "record/case_record.h"

namespace paceline {

// The memory in use according to three sources, in bytes.
struct MemoryCounts {
  std::string when;          // "before the case", "after set-up", "at the end"
  std::size_t ledger = 0;    // of arrays in use
  std::size_t reserved = 0;  // by the allocator: in use and kept for reuse
  std::size_t driver = 0;    // Device::driver_bytes()
};
[[nodiscard]] MemoryCounts count_memory(Device& device, std::string when);

struct MemoryOutcome {
  std::vector<MemoryMark> marks;
  std::vector<Allocation> kept;     // StepRunner::kept()
  std::vector<Allocation> largest;  // of a steady step
  std::vector<MemoryCounts> counts;
  std::size_t peak_bytes = 0;
  std::vector<MemoryEvent> timeline;  // with --memory-timeline
  Table parameters;                   // parameters_table(), with --memory-timeline
};

// Table "memory/parameters": offset and size in bytes of every parameter in each of the store's
// arrays.
[[nodiscard]] Table parameters_table(const ParameterStore& store,
                                     const std::vector<StoreArray>& arrays);

// Collective. Records the marks of all ranks and, in the summary, their maxima. Records of rank 0:
// the largest blocks ("memory/blocks"), the counts ("memory/driver"), closed forms and measurements
// ("memory/closed_form") and, with --memory-timeline, every allocation and release of one step
// ("memory/timeline") and "memory/parameters".
void add_memory(CaseRecord& record, World& world, const TrainingCase& c,
                const MemoryOutcome& memory);

}  // namespace paceline
