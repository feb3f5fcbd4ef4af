#pragma once
// The rules that flag a case's times as doubtful (docs/measuring.md).

#include <vector>

#include "core/device.h"
#include "core/world.h"
#include "record/case_record.h"

namespace paceline {

// For a record that already has its samples and conditions; on rank 0.
[[nodiscard]] std::vector<Warning> timing_warnings(const CaseRecord& record, const World& world,
                                                   const DeviceInfo& device);

}  // namespace paceline
