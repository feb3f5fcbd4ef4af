#pragma once
#include <memory>
#include <string>

#include "core/device.h"
#include "core/profiler.h"

namespace paceline {

// Where CUPTI cannot be used, most often because another tool has it: operations timed by events,
// within cudaProfilerStart() and -Stop(), which Nsight's tools take for the range that they
// capture.
[[nodiscard]] std::unique_ptr<Profiler> start_attached_profiler(Device& device,
                                                                const std::string& reason);

}  // namespace paceline
