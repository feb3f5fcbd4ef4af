#include "core/error.h"
#include "cuda/attached_profiler.h"
#include "cuda/cuda_device.h"
#include "cuda/cupti/cupti_profiler.h"

namespace paceline {

std::unique_ptr<Profiler> CudaDevice::start_profiler() {
  try {
    return std::make_unique<CuptiProfiler>(*this);
  } catch (const EnvironmentError& error) {
    return start_attached_profiler(*this, error.what());
  }
}

}  // namespace paceline
