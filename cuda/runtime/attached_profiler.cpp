#include "cuda/runtime/attached_profiler.h"

#include <cuda_profiler_api.h>

#include "core/profiler.h"

namespace paceline {

namespace {

class AttachedProfiler final : public Profiler {
 public:
  AttachedProfiler(Device& device, const std::string& reason) : events_(device, reason) {
    cudaProfilerStart();
  }
  ~AttachedProfiler() override { cudaProfilerStop(); }

  [[nodiscard]] Trace finish() override { return events_.finish(); }

 private:
  EventProfiler events_;
};

}  // namespace

std::unique_ptr<Profiler> start_attached_profiler(Device& device, const std::string& reason) {
  return std::make_unique<AttachedProfiler>(device, reason);
}

}  // namespace paceline
