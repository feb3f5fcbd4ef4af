#include "measure/sensor_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "core/clock.h"
#include "cpu/cpu_device.h"
#include "tests/unit/temp_folder.h"

namespace paceline {
namespace {

// The first value is the number of readings so far; the second value can never be read.
class Counting final : public Sensors {
 public:
  explicit Counting(std::atomic<int>& count) : count_(count) {}
  [[nodiscard]] const std::vector<Sensor>& sensors() const override { return sensors_; }
  [[nodiscard]] bool tells_limits() const override { return true; }
  [[nodiscard]] double interval() const override { return 0.001; }
  [[nodiscard]] Reading read() override {
    const int reading = ++count_;
    return {.values = {static_cast<double>(reading), std::nan("")},
            .limits = reading == 2 ? ClockLimit::power : ClockLimit::none};
  }

 private:
  std::vector<Sensor> sensors_ = {{"count", "n"}, {"unreadable", "n"}};
  std::atomic<int>& count_;
};

void wait_for(const std::atomic<int>& count, int readings) {
  while (count < readings) std::this_thread::yield();
}

TEST(SensorLog, ReadsAtOnceAndThenPeriodically) {
  std::atomic<int> count = 0;
  {
    const SensorLog log(std::make_unique<Counting>(count));
    EXPECT_GE(count, 1);
    wait_for(count, 5);
  }
  const int last = count;
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(count, last);  // the reading thread has ended
}

TEST(SensorLog, AveragesTheReadingsOfASpanAndKeepsTheirLimits) {
  std::atomic<int> count = 0;
  const double begin = host_seconds();
  const SensorLog log(std::make_unique<Counting>(count));
  wait_for(count, 6);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  const double end = host_seconds();
  const Reading all = log.during(begin, end);
  EXPECT_GE(all.values[0], 3);  // the mean of 1, 2, ..., n with n >= 6
  EXPECT_TRUE(std::isnan(all.values[1]));
  EXPECT_EQ(all.limits, ClockLimit::power);
}

TEST(ReadingDuring, WithoutReadingsIsTheNearestOne) {
  const std::vector<TimedReading> readings = {{.time = 10, .reading = {.values = {1}}},
                                              {.time = 20, .reading = {.values = {2}}}};
  EXPECT_EQ(reading_during(readings, 1, 2).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 12, 13).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 17, 18).values, std::vector<double>{2});
  EXPECT_EQ(reading_during(readings, 13, 19).values, std::vector<double>{2});
  EXPECT_EQ(reading_during(readings, 11, 16).values, std::vector<double>{1});
  EXPECT_EQ(reading_during(readings, 30, 40).values, std::vector<double>{2});
}

TEST(ReadingDuring, IsTheMeanOfTheReadingsThatSucceeded) {
  const double nan = std::nan("");
  const std::vector<TimedReading> readings = {
      {.time = 9, .reading = {.values = {99, 99}, .limits = ClockLimit::hardware}},
      {.time = 10, .reading = {.values = {1, nan}, .limits = ClockLimit::power}},
      {.time = 11, .reading = {.values = {nan, nan}}},
      {.time = 12, .reading = {.values = {4, nan}, .limits = ClockLimit::thermal}},
      {.time = 13, .reading = {.values = {99, 99}, .limits = ClockLimit::hardware}}};
  const Reading mean = reading_during(readings, 10, 13);
  EXPECT_EQ(mean.values.at(0), 2.5);
  EXPECT_TRUE(std::isnan(mean.values.at(1)));
  EXPECT_EQ(mean.limits, ClockLimit::power | ClockLimit::thermal);
}

TEST(ClockLimits, HaveNames) {
  EXPECT_EQ(name_of(ClockLimit::none), "");
  EXPECT_EQ(name_of(ClockLimit::thermal), "thermal");
  EXPECT_EQ(name_of(ClockLimit::power | ClockLimit::hardware), "power and hardware");
}

TEST(CpuSensors, ReadWhatLinuxShows) {
  const TempFolder root;
  CpuSensors none({0, 1}, root.path());
  EXPECT_TRUE(std::isnan(none.read().values.at(0)));
  EXPECT_TRUE(std::isnan(none.read().values.at(1)));

  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2000000");
  root.write("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3000000");
  root.write("sys/devices/system/cpu/cpu2/cpufreq/scaling_cur_freq", "9000000");
  root.write("sys/class/thermal/thermal_zone0/temp", "41000");
  root.write("sys/class/thermal/thermal_zone1/temp", "55500");
  CpuSensors both({0, 1}, root.path());
  EXPECT_EQ(both.read().values.at(0), 2.5e9);
  EXPECT_EQ(both.read().values.at(1), 55.5);
  EXPECT_EQ(both.sensors().size(), both.read().values.size());
}

}  // namespace
}  // namespace paceline
