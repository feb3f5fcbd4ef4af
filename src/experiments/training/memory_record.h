#pragma once
// What a case leaves about one rank's memory, and its tables.

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "experiments/training/training_step.h"
#include "model/accounting.h"
#include "model/parameter_store.h"
#include "record/case_record.h"

namespace paceline {

// Three counts of the same memory, in bytes.
struct MemoryCounts {
  std::string when;          // "before the case", "after set-up", "at the end"
  std::size_t ledger = 0;    // of arrays in use
  std::size_t reserved = 0;  // by the allocator: in use and kept for reuse
  std::size_t driver = 0;    // Device::driver_bytes()
};
[[nodiscard]] MemoryCounts count_memory(Device& device, std::string when);

struct MemoryOutcome {
  std::vector<MemoryMark> marks;
  std::vector<MemoryBlock> kept;     // TrainingStep::kept()
  std::vector<MemoryBlock> largest;  // of a steady step
  std::vector<MemoryCounts> counts;
  std::vector<MemoryEvent> timeline;  // with --memory-timeline
  std::size_t peak_bytes = 0;
};

// "memory/blocks": the largest, and the scope they come from.
[[nodiscard]] Table blocks_table(const std::vector<MemoryBlock>& largest);
// "memory/parameters": every parameter's range, in bytes, in each of the store's arrays.
[[nodiscard]] Table parameters_table(const ParameterStore& store,
                                     const std::vector<StoreArray>& arrays);
// "memory/driver": the counts, and what the driver's has beyond the allocator's: the CUDA context
// and libraries.
[[nodiscard]] Table driver_table(const std::vector<MemoryCounts>& counts);
// "memory/closed_form": what was measured beside what the formulas say.
[[nodiscard]] Table closed_form_table(const std::vector<MemoryLine>& lines,
                                      const MemoryOutcome& measured);
// "memory/timeline": every allocation and release of one step; first, what was in use.
[[nodiscard]] Table timeline_table(const std::vector<MemoryEvent>& events);

}  // namespace paceline
