#pragma once
// Before a case is measured: does what it needs fit in memory?

#include <functional>
#include <string>

#include "core/device.h"
#include "core/world.h"
#include "record/case_record.h"

namespace paceline {

// Collective: runs `work`, which allocates. True when every rank had the memory; otherwise the
// record's status is oom and, on rank 0, its reason names `predicted` bytes and what was refused.
[[nodiscard]] bool fits_in_memory(World& world, CaseRecord& record, double predicted,
                                  const std::function<void()>& work);

// After a first step: repeats it until one has allocated nothing new from the system, so that
// another like it finds all its memory reserved. The first step allocates as it goes: what it needs
// late, and keeps, may take the block of what it needed early. Throws OutOfMemory, naming `what`,
// when a step's blocks do not fit all at once.
void repeat_until_settled(Device& device, const std::string& what,
                          const std::function<void()>& step);

}  // namespace paceline
