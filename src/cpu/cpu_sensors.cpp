#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "cpu/cpu_device.h"

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double number_in(const std::filesystem::path& file) {
  double number = nan;
  std::ifstream stream(file);
  return stream >> number ? number : nan;
}

}  // namespace

CpuSensors::CpuSensors(const std::vector<int>& cores, const std::filesystem::path& root)
    : sensors_{{"cpu_clock", "hz"}, {"temperature", "c"}} {
  namespace fs = std::filesystem;
  for (const int core : cores) {
    const fs::path file =
        root / fmt::format("sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq", core);
    if (fs::exists(file)) frequencies_.push_back(file);
  }
  std::error_code absent;
  for (const auto& zone : fs::directory_iterator(root / "sys/class/thermal", absent)) {
    if (fs::exists(zone.path() / "temp")) temperatures_.push_back(zone.path() / "temp");
  }
}

// Reading two files takes about 20 us.
double CpuSensors::interval() const {
  constexpr double seconds_per_file = 0.02;
  return 0.1 + seconds_per_file * static_cast<double>(frequencies_.size() + temperatures_.size());
}

Reading CpuSensors::read() {
  constexpr double kilo = 1e3;
  double sum = 0;
  for (const auto& file : frequencies_) sum += number_in(file) * kilo;
  double hottest = nan;
  for (const auto& file : temperatures_) hottest = std::fmax(hottest, number_in(file) / kilo);
  const auto cores = static_cast<double>(frequencies_.size());
  return {.values = {frequencies_.empty() ? nan : sum / cores, hottest}};
}

}  // namespace paceline
