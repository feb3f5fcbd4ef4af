#pragma once
// A GPU's sensors, through NVML: clocks, power, temperature and reasons for limited clocks.

#include <memory>
#include <string>
#include <vector>

#include "core/sensors.h"
#include "cuda/runtime/nvml.h"

namespace paceline {

class GpuSensors final : public Sensors {
 public:
  // Without NVML all readings are NaN.
  explicit GpuSensors(const std::string& pci_bus_id);

  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return gpu_ != nullptr; }
  [[nodiscard]] double interval() const override { return 0.1; }
  [[nodiscard]] Reading read() override;

 private:
  std::vector<Sensor> sensors_;
  std::shared_ptr<const Nvml> nvml_;
  Nvml::Gpu gpu_ = nullptr;
};

}  // namespace paceline
