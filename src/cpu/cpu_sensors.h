#pragma once
// The CPU's sensors under /sys: the mean frequency of the cores that this process may use, and the
// temperature of the hottest thermal zone. Most virtual machines have neither.

#include <filesystem>
#include <vector>

#include "core/sensors.h"

namespace paceline {

class CpuSensors final : public Sensors {
 public:
  // cores: core numbers. root: "/", or another folder in tests.
  explicit CpuSensors(const std::vector<int>& cores, const std::filesystem::path& root = "/");

  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return false; }
  [[nodiscard]] double interval() const override;
  [[nodiscard]] Reading read() override;

 private:
  std::vector<Sensor> sensors_;
  std::vector<std::filesystem::path> frequencies_;   // kHz
  std::vector<std::filesystem::path> temperatures_;  // thousandths of a degree Celsius
};

}  // namespace paceline
