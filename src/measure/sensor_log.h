#pragma once
// SensorLog: a device's sensors, read by a thread of its own while a case is measured.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/non_copyable.h"
#include "core/sensors.h"

namespace paceline {

class SensorLog : NonCopyable {
 public:
  // Reads once, and then every sensors->interval() seconds until it is destroyed.
  explicit SensorLog(std::unique_ptr<Sensors> sensors);
  ~SensorLog();

  [[nodiscard]] const std::vector<Sensor>& sensors() const { return sensors_->sensors(); }
  [[nodiscard]] bool tells_limits() const { return sensors_->tells_limits(); }
  // Between two times of host_seconds(): the mean of each sensor's readings and every limit that
  // one of them names; of a span without a reading, the nearest one's.
  [[nodiscard]] Reading during(double begin, double end) const;

 private:
  struct Timed {
    double time;
    Reading reading;
  };

  void read();
  void run();

  std::unique_ptr<Sensors> sensors_;
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::vector<Timed> readings_;  // in the order of their times
  std::thread thread_;
};

}  // namespace paceline
