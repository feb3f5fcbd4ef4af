#include "measure/sensor_log.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <limits>
#include <utility>

#include "core/clock.h"

namespace paceline {

Reading reading_during(const std::vector<TimedReading>& readings, double begin, double end) {
  const auto earlier = [](const TimedReading& r, double time) { return r.time < time; };
  auto first = std::lower_bound(readings.begin(), readings.end(), begin, earlier);
  auto last = std::lower_bound(first, readings.end(), end, earlier);
  if (first == last) {
    const bool before_is_nearer =
        first == readings.end() ||
        (first != readings.begin() && begin - std::prev(first)->time < first->time - end);
    if (before_is_nearer) --first;
    last = std::next(first);
  }
  Reading mean{.values = std::vector<double>(readings.front().reading.values.size(), 0)};
  for (std::size_t s = 0; s < mean.values.size(); ++s) {
    double count = 0;
    for (auto it = first; it != last; ++it) {
      if (std::isnan(it->reading.values[s])) continue;
      mean.values[s] += it->reading.values[s];
      ++count;
    }
    mean.values[s] = count > 0 ? mean.values[s] / count : std::numeric_limits<double>::quiet_NaN();
  }
  for (auto it = first; it != last; ++it) mean.limits = mean.limits | it->reading.limits;
  return mean;
}

SensorLog::SensorLog(std::unique_ptr<Sensors> sensors) : sensors_(std::move(sensors)) {
  read();
  thread_ = std::jthread([this](const std::stop_token& stop) {
    const std::chrono::duration<double> interval(sensors_->interval());
    std::mutex waiting;
    std::unique_lock lock(waiting);
    std::condition_variable_any never;
    const auto stopped = [&] { return stop.stop_requested(); };
    while (!never.wait_for(lock, stop, interval, stopped)) read();
  });
}

void SensorLog::read() {
  Reading reading = sensors_->read();
  const std::lock_guard lock(mutex_);
  readings_.push_back({host_seconds(), std::move(reading)});
}

Reading SensorLog::during(double begin, double end) const {
  const std::lock_guard lock(mutex_);
  return reading_during(readings_, begin, end);
}

}  // namespace paceline
