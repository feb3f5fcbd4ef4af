#pragma once
// What a case records besides its times: communication and memory.

#include <cstddef>
#include <string>
#include <vector>

#include "core/device.h"
#include "core/world.h"
#include "experiments/training/step_runner.h"
#include "record/case_record.h"

namespace paceline {

// Collective. Records the last step's communication: calls, bytes and the exposed share; with
// --optimizer in-backward, the overlapped share of the updates. In both cases also the table
// "timeline": phases on the compute stream, and collectives and updates on the other streams.
void add_communication(CaseRecord& record, World& world, const TrainingCase& c,
                       const StepRunner& runner, TrainingStep& step);

// The memory in use according to three sources, in bytes.
struct MemoryCounts {
  std::string when;          // "before the case", "after set-up", "at the end"
  std::size_t ledger = 0;    // of arrays in use
  std::size_t reserved = 0;  // by the allocator: in use and kept for reuse
  std::size_t driver = 0;    // Device::driver_bytes()
};
[[nodiscard]] MemoryCounts count_memory(Device& device, std::string when);

// Collective, after a steady step. Records the marks of all ranks and, in the summary, their
// maxima. Records of rank 0: the largest blocks ("memory/blocks"), the counts ("memory/driver"),
// closed forms and measurements ("memory/closed_form").
void add_memory(CaseRecord& record, World& world, const TrainingCase& c, const StepRunner& runner,
                const MemoryLedger& ledger, const std::vector<MemoryCounts>& counts);

// Tables "memory/timeline", every allocation and release of one step after the blocks that were in
// use before it, and "memory/parameters", offset and size in bytes of every parameter in each of
// the store's arrays.
void add_memory_timeline(CaseRecord& record, const std::vector<MemoryEvent>& events,
                         const ParameterStore& store, const std::vector<StoreArray>& arrays);

}  // namespace paceline
