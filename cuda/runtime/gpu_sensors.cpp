#include "cuda/runtime/gpu_sensors.h"

#include <cstdint>
#include <limits>

namespace paceline {

namespace {

// The reasons that count as limits; settings and idleness do not.
ClockLimit limits_of(std::uint64_t reasons) {
  constexpr std::uint64_t power_cap = 0x4;          // nvmlClocksEventReasonSwPowerCap
  constexpr std::uint64_t hardware_slowdown = 0x8;  // ...HwSlowdown: thermal or power brake
  constexpr std::uint64_t software_thermal = 0x20;  // ...SwThermalSlowdown
  constexpr std::uint64_t hardware_thermal = 0x40;  // ...HwThermalSlowdown
  constexpr std::uint64_t power_brake = 0x80;       // ...HwPowerBrakeSlowdown
  ClockLimit limits = ClockLimit::none;
  if ((reasons & (power_cap | power_brake)) != 0) limits = limits | ClockLimit::power;
  if ((reasons & (software_thermal | hardware_thermal)) != 0) limits = limits | ClockLimit::thermal;
  if ((reasons & hardware_slowdown) != 0) limits = limits | ClockLimit::hardware;
  return limits;
}

}  // namespace

GpuSensors::GpuSensors(const std::string& pci_bus_id)
    : sensors_{{"sm_clock", "hz"}, {"memory_clock", "hz"}, {"power", "w"}, {"temperature", "c"}},
      nvml_(Nvml::open()),
      gpu_(nvml_ == nullptr ? nullptr : nvml_->gpu(pci_bus_id)) {}

Reading GpuSensors::read() {
  if (gpu_ == nullptr) {
    return {.values = std::vector(sensors_.size(), std::numeric_limits<double>::quiet_NaN())};
  }
  return {.values = {nvml_->sm_clock(gpu_), nvml_->memory_clock(gpu_), nvml_->power(gpu_),
                     nvml_->temperature(gpu_)},
          .limits = limits_of(nvml_->clock_limits(gpu_))};
}

}  // namespace paceline
