#pragma once
// The rules by which a case's times are doubtful (docs/measuring.md).

#include <vector>

#include "core/device.h"
#include "core/world.h"
#include "record/case_record.h"

namespace paceline {

// Of a record that has its samples and conditions; on rank 0.
[[nodiscard]] std::vector<Warning> doubts_of(const CaseRecord& record, const World& world,
                                             const DeviceInfo& device);

}  // namespace paceline
