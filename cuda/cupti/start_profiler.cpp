#include "core/error.h"
#include "cuda/cupti/cupti_profiler.h"
#include "cuda/runtime/attached_profiler.h"
#include "cuda/runtime/cuda_device.h"

namespace paceline {

std::unique_ptr<Profiler> CudaDevice::start_profiler() {
  try {
    return std::make_unique<CuptiProfiler>(*this);
  } catch (const EnvironmentError& error) {
    return start_attached_profiler(*this, error.what());
  }
}

}  // namespace paceline
