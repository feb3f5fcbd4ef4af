#pragma once
#include <memory>
#include <string>

#include "core/device.h"
#include "core/profiler.h"

namespace paceline {

// For use where CUPTI cannot be used, mostly because another tool is attached: times operations by
// events, between cudaProfilerStart() and cudaProfilerStop(), the range that Nsight's tools
// capture.
[[nodiscard]] std::unique_ptr<Profiler> start_attached_profiler(Device& device,
                                                                const std::string& reason);

}  // namespace paceline
