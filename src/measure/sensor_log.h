#pragma once
// SensorLog: a thread that reads a device's sensors while a case is measured.

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/non_copyable.h"
#include "core/sensors.h"

namespace paceline {

struct TimedReading {
  double time = 0;  // host_seconds()
  Reading reading;
};

// The mean of each sensor's readings between two times, and the union of their limits. If there is
// no reading in between: the nearest one. The readings are sorted by time; there is at least one.
[[nodiscard]] Reading reading_during(const std::vector<TimedReading>& readings, double begin,
                                     double end);

class SensorLog : NonCopyable {
 public:
  // Reads at once, and then every sensors->interval() seconds until destruction.
  explicit SensorLog(std::unique_ptr<Sensors> sensors);

  [[nodiscard]] const std::vector<Sensor>& sensors() const { return sensors_->sensors(); }
  [[nodiscard]] bool tells_limits() const { return sensors_->tells_limits(); }
  // reading_during() of the readings so far.
  [[nodiscard]] Reading during(double begin, double end) const;

 private:
  void read();

  std::unique_ptr<Sensors> sensors_;
  mutable std::mutex mutex_;
  std::vector<TimedReading> readings_;  // sorted by time
  std::jthread thread_;
};

}  // namespace paceline
